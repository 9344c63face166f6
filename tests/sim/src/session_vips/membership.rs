//! Who sees what of sessions: each node the member objects, the Leases that it follows by name, and those of agents that publish no
//! member object. An agent of before sees all Leases, and no member object.

use std::collections::BTreeSet;

use mooring_agent_core::placement::Labels;
use mooring_agent_core::session::{Declared, Member, View};
use mooring_agent_core::session_vips::{Event, Input};

use super::SessionVips;
use super::api::Answer;
use crate::check::Rule;
use crate::session_vips::fault::{Fault, Old};
use crate::settings::number;
use crate::world::World;

impl World<'_, SessionVips> {
    /// Whether a host's agent is one of before: some are until they are started again, and some for ever.
    #[must_use]
    pub fn is_of_before(&self, host: usize) -> bool {
        self.was_of_before(host, self.hosts[host].life)
    }

    /// The same of one of a host's processes: what it has sent may arrive after its end.
    fn was_of_before(&self, host: usize, life: u32) -> bool {
        life < self.plan.settings.own.of_before.get(host).copied().unwrap_or(0)
    }

    /// An agent of before knows nothing of member objects.
    pub(super) fn view_for(&self, host: usize, view: View) -> View {
        View { published: view.published && !self.is_of_before(host), ..view }
    }

    /// A consistent list of all sessions.
    pub(super) fn sessions_for(&self, host: usize) -> Vec<View> {
        self.api.store.sessions.values().map(|view| self.view_for(host, view.clone())).collect()
    }

    /// Whether a Lease has a member object after a host's process has written it: agents of before take the mark off.
    pub(super) fn is_published_after(&self, by: (usize, u32), own: bool, before: Option<&View>) -> bool {
        !self.was_of_before(by.0, by.1) && (own || before.is_some_and(|view| view.published))
    }

    /// What a host's process declares: agents of before say nothing of their Nodes.
    pub(super) fn declared_by(&self, by: (usize, u32), declared: Option<Declared>) -> Option<Declared> {
        let before = self.was_of_before(by.0, by.1);
        declared.map(|all| if before { Declared { standing: None, labels: Labels::new(), ..all } } else { all })
    }

    /// What a node's watches of sessions and member objects begin with.
    pub(super) fn membership_for(&self, host: usize) -> Vec<Event> {
        let store = &self.api.store;
        let before = self.is_of_before(host);
        let views = self.sessions_for(host).into_iter().filter(|view| !view.published).collect();
        let members = store.members.values().filter(|_| !before).cloned().collect();
        let mut all = vec![Input::Sessions { id: None, result: Ok(views) }, Input::Members(members)];
        let follows = self.hosts[host].agent.iter().flat_map(|agent| &agent.own.follows);
        all.extend(follows.map(|node| self.followed_by(host, node)));
        all.into_iter().map(Event::Input).collect()
    }

    fn followed_by(&self, host: usize, node: &str) -> Input {
        let view = self.api.store.sessions.get(node).map(|view| self.view_for(host, view.clone()));
        Input::Followed { node: node.to_owned(), view }
    }

    /// A node follows these Leases by name from now on.
    pub(super) fn follow_by_name(&mut self, host: usize, nodes: &BTreeSet<String>) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let before = std::mem::replace(&mut agent.own.follows, nodes.clone());
        for node in nodes.difference(&before) {
            let followed = self.followed_by(host, node);
            self.show(host, Event::Input(followed));
        }
    }

    fn follows(&self, host: usize, node: &str) -> bool {
        self.hosts[host].agent.as_ref().is_some_and(|agent| agent.own.follows.contains(node))
    }

    /// A Lease was written.
    pub(super) fn show_session(&mut self, before: Option<&View>, view: &View) {
        for host in 0..self.hosts.len() {
            let shown = self.view_for(host, view.clone());
            if !shown.published || self.follows(host, &view.node) {
                self.show(host, Event::Input(Input::Session(shown)));
            }
            if view.published && before.is_some_and(|before| !before.published) && !self.is_of_before(host) {
                self.show(host, Event::Input(Input::NotUnpublished(view.node.clone())));
            }
        }
    }

    /// A Lease was deleted.
    pub(super) fn show_deletion(&mut self, view: &View) {
        for host in 0..self.hosts.len() {
            if self.follows(host, &view.node) || self.is_of_before(host) {
                self.show(host, Event::Input(Input::SessionDeleted(view.node.clone())));
            } else if !view.published {
                self.show(host, Event::Input(Input::NotUnpublished(view.node.clone())));
            }
        }
    }

    /// A host writes a member object.
    pub(super) fn write_member(&mut self, host: usize, base: Option<&str>, copy: View) -> Answer {
        let known = self.api.store.members.get(&copy.node).cloned();
        if known.as_ref().map(|member| member.version.as_str()) != base {
            return Answer::Member(known);
        }
        self.check_member_write(host, &copy);
        self.checks.published.insert((copy.node.clone(), copy.uid.clone(), copy.record.transitions));
        let member = Member { version: self.api.store.next(), copy };
        self.set_member(&member);
        Answer::Member(Some(member))
    }

    /// Somebody makes a member object say this.
    pub fn change_member(&mut self, copy: View) {
        let version = self.api.store.next();
        self.set_member(&Member { version, copy });
    }

    /// Somebody changes a host's member object.
    pub(super) fn put_member_back(&mut self, host: usize, old: Old) {
        let node = &self.names[host];
        let copy = match old {
            Old::Backup => self.api.backups.front().and_then(|old| old.members.get(node)).map(|old| old.copy.clone()),
            _ => self.api.store.members.get(node).map(|now| old.of(&now.copy)),
        };
        if let Some(copy) = copy {
            self.change_member(copy);
        }
    }

    /// A member object says something new.
    fn set_member(&mut self, member: &Member) {
        self.api.store.members.insert(member.copy.node.clone(), member.clone());
        for host in (0..self.hosts.len()).filter(|host| !self.is_of_before(*host)).collect::<Vec<_>>() {
            self.show(host, Event::Input(Input::Member(member.clone())));
        }
    }

    /// Somebody deletes a member object.
    pub(super) fn delete_member(&mut self, node: &str) {
        if self.api.store.members.remove(node).is_some() {
            self.api.store.next();
            for host in (0..self.hosts.len()).filter(|host| !self.is_of_before(*host)).collect::<Vec<_>>() {
                self.show(host, Event::Input(Input::MemberDeleted(node.to_owned())));
            }
        }
    }

    /// A member object says that a session has ended: its Lease must say so.
    fn check_member_write(&mut self, by: usize, copy: &View) {
        let lease = self.api.store.sessions.get(&copy.node);
        let lives = lease.is_some_and(|lease| lease.is_live() && lease.is_of(&copy.incarnation()));
        let restored = self.is_restored() || self.is_restored_unknown_to(by);
        if !copy.is_live() && lives && !restored && number::<Fault>(&copy.node).is_some() {
            let text = format!("{} publishes that the session of {} has ended, which lives", self.names[by], copy.node);
            self.violated(Rule::Record, text);
        }
    }
}
