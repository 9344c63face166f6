//! The order in which binaries are looked for, with fakes.

#![allow(clippy::expect_used, reason = "a test that cannot go on shall say where")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use mooring_tests::assets::{Cache, ETCD, Error, Finder, Product, Source};

/// A test that starts a program passes on, for a moment, what another test has open; and nobody may start a file that is open for
/// writing (ETXTBSY). So those that write programs and start them come one after the other.
static PROGRAMS: Mutex<()> = Mutex::new(());

/// A program that says what the real one says.
fn fake(folder: &Path, product: Product, version: &str) {
    fs::create_dir_all(folder).expect("a folder");
    let (asked, says) = match product {
        Product::Etcd => ("--version", format!("etcd Version: {version}\nGit SHA: none\nGo Version: go1.26")),
        Product::Kubeadm => ("version --output=short", format!("v{version}")),
        Product::Kubectl => ("version --client", format!("Client Version: v{version}\nKustomize Version: v5.8.1")),
        _ => ("--version", format!("Kubernetes v{version}")),
    };
    let path = folder.join(product.file());
    fs::write(&path, format!("#!/bin/sh\n[ \"$*\" = \"{asked}\" ] && cat <<X\n{says}\nX\n")).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn the_first_right_version_is_taken() {
    let _alone = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let top = tempfile::tempdir().expect("a folder");
    let [assets, first, second, cache] = ["assets", "first", "second", "cache"].map(|name| top.path().join(name));
    let mut finder = Finder {
        kubebuilder_assets: Some(assets.clone()),
        path: std::env::join_paths([&first, &second]).expect("a path"),
        cache: Cache::at(cache.clone()),
        fetch: false,
    };
    let in_cache = cache.join(format!("etcd-{ETCD}-{}", std::env::consts::ARCH));
    for (folder, version) in [(&assets, "3.6.1"), (&first, "3.5.21"), (&second, "3.7.0"), (&in_cache, ETCD)] {
        fake(folder, Product::Etcd, version);
    }
    let found = |finder: &Finder| finder.find(Product::Etcd).map(|found| (found.source, found.version));
    assert_eq!(found(&finder).expect("one"), (Source::KubebuilderAssets, "3.6.1".into()));
    fake(&assets, Product::Etcd, "3.4.23");
    assert_eq!(found(&finder).expect("one"), (Source::Path, "3.7.0".into()), "too old ones are passed over");
    finder.kubebuilder_assets = None;
    finder.path = std::env::join_paths([&first]).expect("a path");
    assert_eq!(found(&finder).expect("one"), (Source::Cache, ETCD.into()));
    finder.path = OsString::new();
    assert_eq!(found(&finder).expect("one").0, Source::Cache);

    fs::remove_dir_all(&in_cache).expect("removed");
    finder.path = std::env::join_paths([&first]).expect("a path");
    let error = finder.find(Product::Etcd).expect_err("none left");
    assert!(matches!(error, Error::Nowhere { .. }));
    let text = error.to_string();
    assert!(text.contains("3.5.21") && text.contains("3.6 or later") && text.contains("KUBEBUILDER_ASSETS"), "{text}");
}

#[test]
fn each_program_is_asked_for_its_version_as_it_answers() {
    let _alone = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let top = tempfile::tempdir().expect("a folder");
    let finder = Finder {
        kubebuilder_assets: None,
        path: top.path().as_os_str().to_owned(),
        cache: Cache::at(top.path().join("cache")),
        fetch: false,
    };
    for product in [Product::KubeApiserver, Product::Kubelet, Product::Kubeadm, Product::Kubectl] {
        fake(top.path(), product, "1.36.1");
        assert_eq!(finder.find(product).expect("one").version, "1.36.1", "{product}");
        fake(top.path(), product, "1.32.4");
        assert!(finder.find(product).is_err(), "{product} is too old");
    }
}

#[test]
fn versions_of_kube_apiserver() {
    for (version, good) in
        [("1.36.3", true), ("1.36.0", true), ("1.36.0-rc.1", false), ("1.35.4", false), ("2.36.0", false)]
    {
        assert_eq!(Product::KubeApiserver.accepts(version), good, "{version}");
    }
    for (version, good) in [("3.6.0", true), ("3.10.1", true), ("3.5.99", false), ("4.0.0", false), ("", false)] {
        assert_eq!(Product::Etcd.accepts(version), good, "{version}");
    }
}

#[test]
fn a_failed_attempt_leaves_nothing_in_the_cache() {
    let top = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(top.path().to_owned());
    let path = cache.folder("thing-1").join("thing");
    let failed = cache.fill(&path, |to| {
        fs::write(to, "half").expect("written");
        Err::<(), _>(Error::Missing { program: "thing".into(), detail: "on purpose".into() })
    });
    assert!(failed.is_err() && !path.exists());
    assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("readable").count(), 0);
    cache
        .fill(&path, |to| fs::write(to, "whole").map_err(|source| Error::Io { what: "write".into(), source }))
        .expect("filled");
    assert_eq!(fs::read_to_string(&path).expect("there"), "whole");
}
