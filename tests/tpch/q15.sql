-- Q15, top supplier: DATE = 1996-01-01. The specification's view is a common table expression here.
WITH revenue AS (
        SELECT l_suppkey AS supplier_no,
               SUM(l_extendedprice * (1 - l_discount)) AS total_revenue
        FROM lineitem
        WHERE l_shipdate >= CAST('1996-01-01' AS date)
          AND l_shipdate < DATEADD(month, 3, CAST('1996-01-01' AS date))
        GROUP BY l_suppkey
     )
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
FROM supplier, revenue
WHERE s_suppkey = supplier_no
  AND total_revenue = (SELECT MAX(total_revenue) FROM revenue)
ORDER BY s_suppkey
