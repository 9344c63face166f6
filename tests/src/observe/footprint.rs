//! What the kernel of a node has that outlives programs: addresses, routes and network settings.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Error, Place, inside};

/// Each thing by its name, as the kernel prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint(BTreeMap<String, String>);

impl Footprint {
    /// That of a node now.
    ///
    /// # Errors
    /// The kernel does not say it.
    pub fn of(place: &impl Place) -> Result<Self, Error> {
        inside(place, read).map(Self)
    }

    /// What is different now: removed, added and changed.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<String> {
        let gone = self.0.iter().filter(|(key, _)| !now.0.contains_key(*key)).map(|(key, _)| format!("{key} is gone"));
        let other = now.0.iter().filter(|(key, value)| self.0.get(*key) != Some(value));
        gone.chain(other.map(|(key, value)| format!("{key}: {:?} is now {value:?}", self.0.get(key)))).collect()
    }
}

fn read() -> Result<BTreeMap<String, String>, Error> {
    let mut all = BTreeMap::new();
    for family in ["ipv4", "ipv6"] {
        for kind in ["conf", "neigh"] {
            let folder = format!("/proc/sys/net/{family}/{kind}");
            settings(Path::new(&folder), &mut all)?;
        }
    }
    let routes = "/proc/thread-self/net/route";
    let text = fs::read_to_string(routes).map_err(Error::io(format!("read {routes}")))?;
    all.extend(text.lines().map(|line| (format!("route {}", line.trim()), String::new())));
    let addresses = nix::ifaddrs::getifaddrs().map_err(|errno| Error::io("list the addresses")(errno.into()))?;
    for one in addresses {
        if let Some(address) =
            one.address.filter(|one| one.as_sockaddr_in().is_some() || one.as_sockaddr_in6().is_some())
        {
            all.insert(format!("address {address} of {}", one.interface_name), String::new());
        }
    }
    Ok(all)
}

/// The settings of each interface.
fn settings(folder: &Path, all: &mut BTreeMap<String, String>) -> Result<(), Error> {
    let list = |path: &Path| fs::read_dir(path).map_err(Error::io(format!("list {}", path.display())));
    for interface in list(folder)?.flatten() {
        for file in list(&interface.path())?.flatten() {
            // Some can only be written, or have no value yet.
            if let Ok(value) = fs::read_to_string(file.path()) {
                all.insert(file.path().display().to_string(), value.trim().to_owned());
            }
        }
    }
    Ok(())
}
