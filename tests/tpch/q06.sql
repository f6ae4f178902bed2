-- Q6, forecasting revenue change: DATE = 1994-01-01, DISCOUNT = 0.06, QUANTITY = 24.
SELECT SUM(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= CAST('1994-01-01' AS date)
  AND l_shipdate < DATEADD(year, 1, CAST('1994-01-01' AS date))
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01
  AND l_quantity < 24
