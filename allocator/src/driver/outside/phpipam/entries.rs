//! phpIPAM's subnets and addresses, read from its JSON. Numbers come as numbers or as texts.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mooring_allocator_core::block::Block;
use mooring_allocator_core::names::Uid;
use mooring_allocator_core::remote::Entry;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::reply::Data;

/// What our descriptions begin with. phpIPAM keeps 64 characters of a description.
const MARK: &str = "mooring:";

/// The description of a claim's entry.
pub(super) fn description(claim: &Uid) -> String {
    format!("{MARK}{claim}")
}

/// The claim that a description names.
fn claim_of(description: &str) -> Option<Uid> {
    let uid = description.strip_prefix(MARK)?;
    let fits = uid.len() >= 8 && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    fits.then(|| Uid::from(uid))
}

/// The owner of a pool's entries: short, because phpIPAM keeps 32 characters of an owner.
pub(super) fn owner(pool: &Uid) -> String {
    let short: String = pool.0.chars().filter(|c| *c != '-').take(16).collect();
    format!("mooring-{short}")
}

/// A subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    pub(super) id: i64,
    network: IpAddr,
    pub(super) prefix: u8,
    /// It may have none.
    pub(super) gateway: Option<IpAddr>,
}

impl Subnet {
    /// Reads a subnet.
    pub(super) fn read(id: i64, data: &Value) -> Option<Self> {
        let prefix: u8 = text(&data["mask"])?.parse().ok()?;
        let address = |value: &Value| address(&text(value)?);
        let network = address(&data["subnet"])?;
        Block::prefix(network, prefix)?;
        let gateway = &data["gateway"];
        let gateway = address(gateway).or_else(|| address(&gateway["ip_addr"])).or_else(|| address(&gateway["ip"]));
        Some(Self { id, network, prefix, gateway })
    }

    /// Whether an address is in the subnet.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        let same = address.is_ipv4() == self.network.is_ipv4();
        same && Block::prefix(self.network, self.prefix).is_some_and(|block| block.overlaps(Block::host(address)))
    }

    /// Whether an address is the one that all routers of an IPv6 subnet have.
    pub(super) fn is_anycast(&self, address: IpAddr) -> bool {
        address.is_ipv6() && self.prefix < 127 && address == self.network
    }

    /// How many addresses it has for hosts; None: more than can be counted.
    pub(super) fn size(&self) -> Option<u64> {
        let (bits, reserved) = if self.network.is_ipv4() { (32, 2) } else { (128, 1) };
        let all = 1u64.checked_shl(u32::from(bits - self.prefix.min(bits)))?;
        Some(if all > 2 { all - reserved } else { all })
    }
}

/// A number or a text, as text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// An address: dotted, or (in some of phpIPAM's lists) as a decimal number.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let number: u128 = text.parse().ok()?;
    Some(match u32::try_from(number) {
        Ok(number) => Ipv4Addr::from(number).into(),
        Err(_) => Ipv6Addr::from(number).into(),
    })
}

/// Whether what was read by an entry's number is that entry, as it was found: with its address, and the same mark. One that bears no
/// mark was found by its name.
pub(super) fn is_still(data: &Value, entry: &Entry, pool: &Uid) -> bool {
    let data = data.as_array().and_then(|all| all.first()).unwrap_or(data);
    let read = |key: &str| text(&data[key]).unwrap_or_default();
    let claim = claim_of(&read("description"));
    let named = entry.claim.is_some() || read("hostname").eq_ignore_ascii_case(&entry.host);
    let ours = !entry.ours || read("owner") == owner(pool);
    read("id") == *entry.id && address(&read("ip")) == Some(entry.address) && claim == entry.claim && named && ours
}

/// An address of a list, as far as it is used.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow, default)]
    id: Word<'a>,
    #[serde(borrow, default, rename = "subnetId")]
    subnet: Word<'a>,
    #[serde(borrow, default)]
    ip: Word<'a>,
    #[serde(borrow, default)]
    hostname: Word<'a>,
    #[serde(borrow, default)]
    description: Word<'a>,
    #[serde(borrow, default)]
    owner: Word<'a>,
}

/// A number or a text, as text; None: something else.
#[derive(Default)]
struct Word<'a>(Option<Cow<'a, str>>);

impl Word<'_> {
    fn text(&self) -> &str {
        self.0.as_deref().unwrap_or_default().trim()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyWord)
    }
}

struct AnyWord;

impl<'de> Visitor<'de> for AnyWord {
    type Value = Word<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Word(Some(text.into())))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Word(Some(text.to_owned().into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Word(Some(number.to_string().into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Word(Some(number.to_string().into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Word(Some(number.to_string().into())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Word(None))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Word(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        while all.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Word(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        while all.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Word(None))
    }
}

/// The entries of a list, of this subnet; None: it is no list of entries.
pub(super) fn entries(data: &Data, subnet: &Subnet, pool: &Uid) -> Option<Vec<Entry>> {
    let rows: Vec<Row<'_>> = data.read()?;
    let (id, owner) = (subnet.id.to_string(), owner(pool));
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        if row.subnet.0.is_some() && row.subnet.text() != id {
            continue;
        }
        let claim = claim_of(row.description.text());
        all.push(Entry {
            id: Some(row.id.text()).filter(|id| !id.is_empty())?.into(),
            address: address(row.ip.text())?,
            prefix: subnet.prefix,
            gateway: subnet.gateway,
            ours: claim.is_some() && row.owner.text() == owner,
            claim,
            host: row.hostname.text().into(),
        });
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data(json: &Value) -> Data {
        Data(json.to_string().into())
    }

    #[test]
    fn an_entry_is_still_the_one_that_was_found_only_with_its_number_address_and_mark() {
        let subnet = Subnet::read(7, &json!({"subnet": "192.0.2.0", "mask": "24"})).unwrap();
        let pool = Uid::from("0f0e0d0c-0b0a-0908-0706-050403020100");
        let [claim, other] =
            [1, 2].map(|n| description(&Uid::from(&*format!("11112222-3333-4444-5555-66667777888{n}"))));
        let row = json!({"id": 11, "subnetId": 7, "ip": "192.0.2.1", "hostname": "c.ns", "description": claim, "owner": owner(&pool)});
        let with = |key: &str, value: &str| {
            let mut row = row.clone();
            row[key] = value.into();
            row
        };
        let found = |row: &Value| entries(&data(&json!([row])), &subnet, &pool).unwrap().remove(0);
        let entry = found(&row);
        // People change names and notes.
        for same in [row.clone(), json!([row]), with("ip", "3221225985"), with("id", "11"), with("hostname", "x")] {
            assert!(is_still(&same, &entry, &pool), "{same}");
        }
        let changes = [("id", "12"), ("ip", "192.0.2.2"), ("description", ""), ("description", &*other), ("owner", "")];
        for (key, value) in changes {
            assert!(!is_still(&with(key, value), &entry, &pool), "{key} {value}");
        }
        assert!(!is_still(&json!(null), &entry, &pool) && !is_still(&json!([]), &entry, &pool));
        // Another provider has written a name and no mark.
        let named = found(&with("description", "a machine"));
        assert!(is_still(&with("description", "another note"), &named, &pool));
        assert!(!is_still(&row, &named, &pool));
        let mut renamed = with("description", "");
        renamed["hostname"] = "printer".into();
        assert!(!is_still(&renamed, &named, &pool));
    }

    #[test]
    fn entries_are_read_however_phpipam_writes_numbers() {
        let subnet =
            Subnet::read(7, &json!({"subnet": "192.0.2.0", "mask": "29", "gateway": {"ip_addr": "192.0.2.6"}}));
        let subnet = subnet.unwrap();
        assert_eq!((subnet.prefix, subnet.gateway, subnet.size()), (29, "192.0.2.6".parse().ok(), Some(6)));
        let pool = Uid::from("0f0e0d0c-0b0a-0908-0706-050403020100");
        let claim = Uid::from("11112222-3333-4444-5555-666677778888");
        let list = json!([
            {"id": 11, "subnetId": "7", "ip": "192.0.2.1", "hostname": "c.ns", "description": description(&claim), "owner": owner(&pool)},
            {"id": "12", "subnetId": 7, "ip": "3221225986", "hostname": null, "description": null, "custom": {"a": [1]}, "owner": [{}]},
            {"id": "13", "subnetId": 8, "ip": "192.0.2.1"},
        ]);
        let all = entries(&data(&list), &subnet, &pool).unwrap();
        assert_eq!(all.iter().map(|one| one.address.to_string()).collect::<Vec<_>>(), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!((all[0].claim.clone(), all[0].ours, all[1].claim.clone()), (Some(claim), true, None));
        assert!(description(&pool).len() <= 64 && owner(&pool).len() <= 32);
        assert_eq!(entries(&data(&json!({"id": 1})), &subnet, &pool), None);
        for wrong in [json!({"subnet": "192.0.2.0", "mask": "40"}), json!({"mask": 24}), json!(null)] {
            assert_eq!(Subnet::read(1, &wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_subnet_may_have_no_gateway_and_routers_keep_their_anycast_address() {
        let subnet = Subnet::read(1, &json!({"subnet": "fd00::", "mask": 64, "gateway": false})).unwrap();
        assert_eq!((subnet.gateway, subnet.size()), (None, None));
        assert!(subnet.is_anycast("fd00::".parse().unwrap()) && !subnet.is_anycast("fd00::1".parse().unwrap()));
        assert!(subnet.has("fd00::5".parse().unwrap()) && !subnet.has("10.0.0.1".parse().unwrap()));
    }
}
