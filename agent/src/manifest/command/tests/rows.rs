//! What becomes of each setting.

use super::*;

#[test]
fn each_setting_of_a_manifest_is_judged() {
    let rows = read(STATIC_POD).unwrap().rows(&Given::default());
    for (name, expected) in [
        ("vip_arp", Verdict::Same),
        ("vip_interface", Verdict::Same),
        ("vip_nodename", Verdict::Same),
        ("vip_leaseduration", Verdict::OtherForm),
        ("vip_leaderelection", Verdict::NoEffect),
        ("bgp_peerpass", Verdict::NoEffect),
    ] {
        assert_eq!(verdict(&rows, name), expected, "{name}");
    }
    assert!(rows.iter().all(|row| row.value != "hidden"), "a password is not shown: {rows:?}");
    let seconds = rows.iter().find(|row| row.setting == "vip_leaseduration").unwrap();
    assert_eq!(seconds.ours, "MOORING_LEASE_DURATION=5s");
}

#[test]
fn what_differs_comes_first() {
    let from =
        read(&STATIC_POD.replace("{path: /etc/kubernetes/admin.conf}", "{path: /etc/kubernetes/super-admin.conf}"));
    let rows = from.unwrap().rows(&Given::default());
    assert_eq!((rows[0].setting.as_str(), rows[0].verdict), ("hostPath", Verdict::Different), "{rows:#?}");
    let words: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
    assert!(words.is_sorted() && words.iter().filter(|one| **one == Verdict::Different).count() == 1, "{rows:#?}");
    assert_eq!(serde_json::to_value(Verdict::OtherForm).unwrap(), "other-form");
}

#[test]
fn rows_say_what_the_settings_come_to() {
    let row = |text: &str, name: &str| {
        let rows = read(text).unwrap().rows(&Given::default());
        rows.into_iter().find(|row| row.setting == name).unwrap_or_else(|| panic!("{name} is not in the report"))
    };
    let of_services =
        |length: &str| row(&daemon_set("", &format!(", {{name: vip_subnet, value: '{length}'}}")), "vip_subnet");
    for (length, verdict) in [
        ("32", Verdict::OtherForm),
        ("32,128", Verdict::Same),
        ("128", Verdict::OtherForm),
        ("24", Verdict::Different),
        ("auto", Verdict::Different),
        ("auto,128", Verdict::Different),
    ] {
        let row = of_services(length);
        assert_eq!((row.verdict, row.ours.as_str()), (verdict, "MOORING_PREFIX=32,128"), "{length}: {row:?}");
    }
    assert!(of_services("24").note.contains("VIPs of Services have the prefix lengths 32 and 128"));
    let both = STATIC_POD.replace("{name: vip_subnet, value: \"32\"}", "{name: vip_subnet, value: \"24\"}");
    assert_eq!(row(&both, "vip_subnet").verdict, Verdict::OtherForm);
    let both = both.replace("{name: vip_arp,", "{name: svc_enable, value: \"true\"}\n    - {name: vip_arp,");
    let row_of_both = row(&both, "vip_subnet");
    assert!(
        row_of_both.verdict == Verdict::Different && row_of_both.note.contains("those of Services"),
        "{row_of_both:?}"
    );
    let level = row(&daemon_set("", ", {name: vip_loglevel, value: '4'}"), "vip_loglevel");
    assert!(level.verdict == Verdict::Different && level.note.contains("meant info"), "{level:?}");
    let auto = row(&STATIC_POD.replace("value: \"32\"", "value: auto"), "vip_subnet");
    assert!(auto.verdict == Verdict::Invalid && auto.note.contains("give a number"), "{auto:?}");
}
