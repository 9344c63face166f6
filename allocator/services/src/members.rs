//! The Services that have or share a claim: the claim's annotation [`crate::words::SERVICES`], `NAMESPACE/NAME=UID`,
//! comma separated.

use mooring_allocator_core::names::{Key, Uid};

use crate::objects::{GivenClass, Member};

/// Reads the annotation, in order. Unreadable entries are left out: somebody has edited them, and they are written
/// again.
#[must_use]
pub fn read(text: &str) -> Vec<Member> {
    let one = |part: &str| {
        let (key, uid) = part.split_once('=')?;
        let (namespace, name) = key.split_once('/')?;
        let whole = !namespace.is_empty() && !name.is_empty() && !uid.is_empty();
        whole.then(|| (Key::new(namespace, name), Uid::from(uid)))
    };
    let mut all: Vec<Member> = text.split(',').filter_map(one).collect();
    all.sort();
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

/// Reads the annotation [`crate::words::GIVEN_CLASSES`]: the class of each of these Services.
#[must_use]
pub fn read_classes(text: &str, members: &[Member]) -> Vec<GivenClass> {
    let given = |key: &Key| {
        text.split(',').find_map(|part| {
            let (service, class) = part.split_once('=')?;
            (service.split_once('/') == Some((&*key.namespace, &*key.name))).then(|| Box::from(class))
        })
    };
    members.iter().map(|(key, _)| given(key)).collect()
}

/// Writes the annotation [`crate::words::GIVEN_CLASSES`]; None: no class is known.
#[must_use]
pub fn write_classes(members: &[Member], classes: &[GivenClass]) -> Option<String> {
    let known = members.iter().zip(classes).filter_map(|((key, _), class)| Some(format!("{key}={}", class.as_ref()?)));
    Some(known.collect::<Vec<_>>().join(",")).filter(|text| !text.is_empty())
}

/// Writes the annotation.
#[must_use]
pub fn write(all: &[Member]) -> String {
    all.iter().map(|(key, uid)| format!("{key}={uid}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all = vec![(Key::new("a", "x"), Uid::from("1")), (Key::new("b", "y"), Uid::from("2"))];
        assert_eq!(read(&write(&all)), all);
        assert_eq!(read("b/y=2,a/x=1,nonsense,/=,c/d=,=,a/x=1"), all);
        assert!(read("").is_empty());
    }

    #[test]
    fn classes_are_read_of_those_that_have_the_claim() {
        let all = vec![
            (Key::new("a", "x"), Uid::from("1")),
            (Key::new("a", "y"), Uid::from("2")),
            (Key::new("b", "x"), Uid::from("3")),
        ];
        let classes: Vec<GivenClass> = vec![Some("".into()), None, Some("other.io/lb".into())];
        let text = write_classes(&all, &classes).unwrap();
        assert_eq!(text, "a/x=,b/x=other.io/lb");
        assert_eq!(read_classes(&text, &all), classes);
        assert_eq!(read_classes("nonsense,b/x=z,c/x=w,a/", &all[1..]), [None, Some("z".into())]);
        assert_eq!((write_classes(&all, &[None, None, None]), read_classes("", &all[..1])), (None, vec![None]));
    }
}
