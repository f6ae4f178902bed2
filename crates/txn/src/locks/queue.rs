//! One resource's locks: its holders, and its waiting requests in order.
//!
//! ```text
//!   granted   51: S     52: S
//!   waiting   52: S -> X  |  53: X   54: S
//!             conversions    the line
//! ```
//!
//! A conversion waits only for the holders that exclude it. A request in the line waits for these holders, and for
//! every request before it that excludes it. In the picture 52 waits for 51, 53 for 51 and 52, 54 for 52 and 53.
//!
//! Requests of one session never exclude each other. A session that holds the resource waits with the conversions,
//! because in the line it would wait for requests that wait for it.

use std::sync::Arc;

use hobt_base::SessionId;

use super::slot::{Outcome, WaitSlot};
use super::{LockMode, LockOwner};

/// The locks of one resource. Most have one holder and no waiting request: then there is no [`Crowd`].
pub(super) struct Queue {
    first: Option<Granted>,
    crowd: Option<Box<Crowd>>,
}

/// A lock that an owner holds.
struct Granted {
    owner: Arc<LockOwner>,
    /// How often it was granted and not yet released.
    count: u32,
    mode: LockMode,
}

const _: () =
    assert!(size_of::<Queue>() <= 32, "what a lock costs is this, its resource here and its resource in the owner");

/// All holders but the first, and all waiting requests.
#[derive(Default)]
pub(super) struct Crowd {
    granted: Vec<Granted>,
    /// The conversions, and then the line.
    waiting: Vec<Waiting>,
    conversions: usize,
}

impl Crowd {
    /// One with room for the requests that make it necessary, so that no memory is allocated while a spinlock is held.
    pub(super) fn with_room() -> Box<Crowd> {
        Box::new(Crowd { granted: Vec::with_capacity(4), waiting: Vec::with_capacity(4), conversions: 0 })
    }
}

/// A request that waits.
pub(super) struct Waiting {
    pub(super) owner: Arc<LockOwner>,
    /// The mode asked for. If the owner holds the resource, the combined mode is found when it is granted.
    pub(super) mode: LockMode,
    pub(super) slot: Arc<WaitSlot>,
}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Granted, and the owner held nothing of the resource before. `passed`: it did not wait in line, because another
    /// owner of its session holds the resource, and it may block those in the line.
    New { passed: bool },
    /// The owner held it in such a mode already.
    Again,
    /// The owner holds it in this mode now. `passed`: as with `New`.
    Converted { mode: LockMode, passed: bool },
    /// Other locks conflict.
    Refused,
    /// Ask again with a spare [`Crowd`].
    NeedsCrowd,
}

/// The result of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Released {
    /// The owner did not hold it.
    NotHeld,
    /// The owner still holds it: it had asked for it more than once.
    Held,
    /// The owner does not hold it any more.
    Gone,
}

/// Whether a request was granted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockStatus {
    /// It is held.
    Granted,
    /// Its owner holds the resource in a weaker mode, and waits.
    Converting,
    /// Its owner waits.
    Waiting,
}

impl LockStatus {
    /// `request_status` of `sys.dm_tran_locks`.
    pub const fn name(self) -> &'static str {
        match self {
            LockStatus::Granted => "GRANT",
            LockStatus::Converting => "CONVERT",
            LockStatus::Waiting => "WAIT",
        }
    }
}

/// A request, as views show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) owner: &'a Arc<LockOwner>,
    pub(super) mode: LockMode,
    pub(super) status: LockStatus,
    pub(super) count: u32,
}

impl Queue {
    /// A queue whose only holder is `owner`.
    pub(super) fn held_by(owner: &Arc<LockOwner>, mode: LockMode) -> Queue {
        Queue { first: Some(Granted { owner: Arc::clone(owner), count: 1, mode }), crowd: None }
    }

    /// Grants `mode` if nothing conflicts.
    pub(super) fn ask(&mut self, owner: &Arc<LockOwner>, mode: LockMode, spare: &mut Option<Box<Crowd>>) -> Answer {
        let held = self.mode_of(owner);
        if let Some(held) = held
            && held.combined(mode) == held
        {
            self.granted_mut(owner).expect("it is held").count += 1;
            return Answer::Again;
        }
        if self.obstacles(owner, mode, self.waiting().len()).next().is_some() {
            return Answer::Refused;
        }
        let passed = !self.waiting().is_empty();
        if let Some(granted) = self.granted_mut(owner) {
            granted.mode = granted.mode.combined(mode);
            granted.count += 1;
            return Answer::Converted { mode: granted.mode, passed };
        }
        if self.first.is_some() && self.crowd.is_none() && spare.is_none() {
            return Answer::NeedsCrowd;
        }
        let passed = passed && self.session_holds(owner.session());
        self.add(Granted { owner: Arc::clone(owner), count: 1, mode }, spare);
        Answer::New { passed }
    }

    /// Puts a refused request into the queue.
    pub(super) fn wait(&mut self, waiting: Waiting, spare: &mut Option<Box<Crowd>>) {
        let converts = self.session_holds(waiting.owner.session());
        let crowd = self.crowd.get_or_insert_with(|| spare.take().unwrap_or_default());
        if converts {
            crowd.waiting.insert(crowd.conversions, waiting);
            crowd.conversions += 1;
        } else {
            crowd.waiting.push(waiting);
        }
    }

    /// Grants what can be granted now. The slots of the granted requests are added to `wake`.
    pub(super) fn grant_waiting(&mut self, wake: &mut Vec<Arc<WaitSlot>>) {
        let mut index = 0;
        while let Some(waiting) = self.waiting().get(index) {
            if self.obstacles(&waiting.owner, waiting.mode, index).next().is_some() {
                index += 1;
                continue;
            }
            let waiting = self.remove_waiting_at(index).expect("it is there");
            waiting.slot.decide(self.grant(waiting.owner, waiting.mode));
            wake.push(waiting.slot);
        }
    }

    fn grant(&mut self, owner: Arc<LockOwner>, mode: LockMode) -> Outcome {
        if let Some(granted) = self.granted_mut(&owner) {
            granted.mode = granted.mode.combined(mode);
            granted.count += 1;
            Outcome::Converted
        } else {
            self.add(Granted { owner, count: 1, mode }, &mut None);
            Outcome::New
        }
    }

    /// Removes a waiting request; `None` if its wait was decided already.
    pub(super) fn remove_waiting(&mut self, slot: &Arc<WaitSlot>) -> Option<Waiting> {
        let index = self.place_of(slot)?;
        self.remove_waiting_at(index)
    }

    fn remove_waiting_at(&mut self, index: usize) -> Option<Waiting> {
        let crowd = self.crowd.as_deref_mut()?;
        crowd.conversions -= usize::from(index < crowd.conversions);
        Some(crowd.waiting.remove(index))
    }

    /// Releases one of the owner's requests, or with `all` all of them.
    pub(super) fn release(&mut self, owner: &Arc<LockOwner>, all: bool) -> Released {
        let Some(granted) = self.granted_mut(owner) else { return Released::NotHeld };
        granted.count -= 1;
        if granted.count > 0 && !all {
            return Released::Held;
        }
        if self.first.as_ref().is_some_and(|first| Arc::ptr_eq(&first.owner, owner)) {
            self.first = self.crowd.as_deref_mut().and_then(|crowd| crowd.granted.pop());
        } else if let Some(crowd) = self.crowd.as_deref_mut() {
            crowd.granted.retain(|granted| !Arc::ptr_eq(&granted.owner, owner));
        }
        Released::Gone
    }

    /// Whether it has no holder and no waiting request.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.waiting().is_empty()
    }

    /// Whether no other session holds it in a mode that excludes `mode`.
    pub(super) fn is_free_for(&self, session: SessionId, mode: LockMode) -> bool {
        self.granted().all(|granted| granted.mode.is_compatible(mode) || granted.owner.session() == session)
    }

    /// The mode in which the owner holds it.
    pub(super) fn mode_of(&self, owner: &Arc<LockOwner>) -> Option<LockMode> {
        self.granted().find(|granted| Arc::ptr_eq(&granted.owner, owner)).map(|granted| granted.mode)
    }

    /// The mode that a waiting request will hold, and the sessions that block it; `None` if its wait was decided.
    pub(super) fn blockers<'a>(
        &'a self,
        slot: &Arc<WaitSlot>,
    ) -> Option<(LockMode, impl Iterator<Item = SessionId> + use<'a>)> {
        let index = self.place_of(slot)?;
        let waiting = &self.waiting()[index];
        Some((self.target(&waiting.owner, waiting.mode), self.obstacles(&waiting.owner, waiting.mode, index)))
    }

    /// Every request: those granted, the conversions, the line.
    pub(super) fn requests(&self) -> impl Iterator<Item = Seen<'_>> {
        let granted = self.granted().map(|granted| {
            let (owner, mode, count) = (&granted.owner, granted.mode, granted.count);
            Seen { owner, mode, status: LockStatus::Granted, count }
        });
        let waiting = self.waiting().iter().map(|waiting| {
            let held = self.mode_of(&waiting.owner);
            let status = if held.is_some() { LockStatus::Converting } else { LockStatus::Waiting };
            let mode = self.target(&waiting.owner, waiting.mode);
            Seen { owner: &waiting.owner, mode, status, count: 1 }
        });
        granted.chain(waiting)
    }

    /// How many requests there are.
    pub(super) fn len(&self) -> usize {
        self.granted().count() + self.waiting().len()
    }

    fn granted(&self) -> impl Iterator<Item = &Granted> {
        let others = self.crowd.as_deref().map_or(&[][..], |crowd| &crowd.granted);
        self.first.iter().chain(others)
    }

    fn granted_mut(&mut self, owner: &Arc<LockOwner>) -> Option<&mut Granted> {
        let others = self.crowd.as_deref_mut().map_or(&mut [][..], |crowd| &mut crowd.granted);
        self.first.iter_mut().chain(others).find(|granted| Arc::ptr_eq(&granted.owner, owner))
    }

    fn waiting(&self) -> &[Waiting] {
        self.crowd.as_deref().map_or(&[], |crowd| &crowd.waiting)
    }

    fn place_of(&self, slot: &Arc<WaitSlot>) -> Option<usize> {
        self.waiting().iter().position(|waiting| Arc::ptr_eq(&waiting.slot, slot))
    }

    fn add(&mut self, granted: Granted, spare: &mut Option<Box<Crowd>>) {
        if self.first.is_none() {
            self.first = Some(granted);
        } else {
            self.crowd.get_or_insert_with(|| spare.take().unwrap_or_default()).granted.push(granted);
        }
    }

    fn session_holds(&self, session: SessionId) -> bool {
        self.granted().any(|granted| granted.owner.session() == session)
    }

    /// What the owner would hold if `mode` were granted.
    fn target(&self, owner: &Arc<LockOwner>, mode: LockMode) -> LockMode {
        self.mode_of(owner).map_or(mode, |held| held.combined(mode))
    }

    /// The sessions for which a request with `ahead` requests before it waits. A session may occur more than once.
    fn obstacles<'a>(
        &'a self,
        owner: &Arc<LockOwner>,
        mode: LockMode,
        ahead: usize,
    ) -> impl Iterator<Item = SessionId> + use<'a> {
        let session = owner.session();
        let mode = self.target(owner, mode);
        // The modes are compared first: they are stored here, the owners elsewhere.
        let in_the_way = move |other: &LockOwner, of: LockMode| !mode.is_compatible(of) && other.session() != session;
        let holders = self.granted().filter(move |granted| in_the_way(&granted.owner, granted.mode));
        let ahead = if ahead > 0 && self.session_holds(session) { 0 } else { ahead };
        let line = self.waiting()[..ahead].iter();
        let line = line.filter(move |waiting| in_the_way(&waiting.owner, self.target(&waiting.owner, waiting.mode)));
        let holders = holders.map(|granted| granted.owner.session());
        holders.chain(line.map(|waiting| waiting.owner.session()))
    }
}
