//! The requests of the address task to the kernel. Tests put a model in the kernel's place.

use std::net::IpAddr;

use crate::core::mac::Mac;
use crate::core::time::Time;
use crate::datapath::{Datapath, Error, Found, Interface, Placed, PutAll, RemoveAll, Vip, link};

/// See [`Datapath`] for each. The thread of the task runs nothing else: no future moves to another thread.
pub trait Kernel {
    fn watch_addresses(&self, addresses: impl IntoIterator<Item = IpAddr>);
    fn current_name(&self, index: u32) -> Option<String>;
    async fn interface(&self, name: &str) -> Result<Interface, Error>;
    async fn interfaces(&self) -> Result<Vec<Interface>, Error>;
    async fn default_interface(&self, v6_first: bool) -> Result<u32, Error>;
    async fn own_macs(&self) -> Result<Vec<Mac>, Error>;
    async fn ours(&self) -> Result<Vec<(Vip, u32)>, Error>;
    async fn find(&self, address: IpAddr) -> Result<Vec<Found>, Error>;
    async fn put_all(&mut self, vips: &[Placed], deadline: Time) -> PutAll;
    async fn remove_many(&mut self, addresses: &[IpAddr]) -> RemoveAll;
    async fn remove_at(&mut self, places: &[Placed]) -> RemoveAll;
    async fn remove_kube_vip(&mut self, address: IpAddr) -> Result<(), Error>;
}

impl Kernel for Datapath {
    fn watch_addresses(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        Self::watch_addresses(self, addresses);
    }

    fn current_name(&self, index: u32) -> Option<String> {
        link::current_name(index)
    }

    async fn interface(&self, name: &str) -> Result<Interface, Error> {
        Self::interface(self, name).await
    }

    async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        Self::interfaces(self).await
    }

    async fn default_interface(&self, v6_first: bool) -> Result<u32, Error> {
        Self::default_interface(self, v6_first).await
    }

    async fn own_macs(&self) -> Result<Vec<Mac>, Error> {
        Self::own_macs(self).await
    }

    async fn ours(&self) -> Result<Vec<(Vip, u32)>, Error> {
        Ok(Self::ours(self).await?.into_iter().map(|(vip, index, _)| (vip, index)).collect())
    }

    async fn find(&self, address: IpAddr) -> Result<Vec<Found>, Error> {
        Self::find(self, address).await
    }

    async fn put_all(&mut self, vips: &[Placed], deadline: Time) -> PutAll {
        Self::put_all(self, vips, deadline).await
    }

    async fn remove_many(&mut self, addresses: &[IpAddr]) -> RemoveAll {
        Self::remove_many(self, addresses).await
    }

    async fn remove_at(&mut self, places: &[Placed]) -> RemoveAll {
        Self::remove_at(self, places).await
    }

    async fn remove_kube_vip(&mut self, address: IpAddr) -> Result<(), Error> {
        Self::remove_kube_vip(self, address).await.map(drop)
    }
}
