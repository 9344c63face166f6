//! What the next free address costs, whatever is used.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use mooring_allocator_core::block::Block;
use mooring_allocator_core::book::{Book, Holder, PoolId};
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_core::pool::PoolSpec;

const FIRST: u32 = u32::from_be_bytes([10, 0, 0, 0]);

/// A /8 of which `used` addresses are in use: packed, or every second one.
fn pool(used: u32, step: u32) -> (Book, PoolId) {
    let mut book = Book::default();
    let id = book.pool(&Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "default", "bench")));
    let spec = PoolSpec { addresses: vec!["10.0.0.0/8".into()], prefix: 8, ..PoolSpec::default() };
    let Ok(plan) = spec.plan() else { return (book, id) };
    book.set_plan(id, Some(plan));
    for slot in 0..used {
        let address = IpAddr::V4(Ipv4Addr::from_bits(FIRST + 1 + slot * step));
        book.occupy(Holder::Object(slot), id, Some(Block::host(address)));
    }
    (book, id)
}

fn free(c: &mut Criterion) {
    for (name, step) in [("packed", 1), ("every second", 2)] {
        let (mut book, id) = pool(1_000_000, step);
        c.bench_function(&format!("next free, 1,000,000 used, {name}"), |b| {
            b.iter(|| black_box(book.next_free(black_box(id), 0)));
        });
        c.bench_function(&format!("take and give back, 1,000,000 used, {name}"), |b| {
            b.iter(|| {
                let block = book.next_free(id, 0);
                book.occupy(Holder::Reserved(0), id, block);
                black_box(book.vacate(Holder::Reserved(0)));
            });
        });
    }
}

criterion_group!(benches, free);
criterion_main!(benches);
