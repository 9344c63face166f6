//! Names of metal3's IP address manager, letter by letter, so that its objects can be taken over and handed back. Source of all:
//! `api/v1alpha1` and `ipam` of ip-address-manager.

/// The group of metal3's kinds.
pub const GROUP: &str = "ipam.metal3.io";

/// The value of [`crate::labels::PROVIDER`] on its pools.
pub const PROVIDER: &str = "ipam-metal3";

crate::mark::marks! {
    /// The address that the claim of an `IPPool` wants. It gets that one or none, and its condition says why.
    Annotation REQUESTED_ADDRESS = "ipAddress" {
        on: "IPAddressClaim of an `IPPool` of metal3's, or IPClaim, before it has an address", value: "an address, `10.0.0.7` say", "people" => "allocator"
    }

    /// The address of an `IPPool` must be given back before the claim may go.
    Finalizer RELEASE_ADDRESS = "ipam.metal3.io/ipaddressclaim" {
        on: "IPAddressClaim of an `IPPool` of metal3's", value: "", "allocator, metal3's controller" => "allocator, metal3's controller"
    }

    /// The address of an `IPPool` stays as long as its claim does, whoever deletes it.
    Finalizer PROTECT_ADDRESS = "ipam.metal3.io/ipaddress" {
        on: "IPAddress of an `IPPool` of metal3's", value: "", "allocator, metal3's controller" => "allocator, metal3's controller"
    }

    /// The address of an `IPPool` must be given back before metal3's own claim may go.
    Finalizer RELEASE_OWN_ADDRESS = "ipclaim.ipam.metal3.io" {
        on: "IPClaim of metal3's", value: "", "allocator, metal3's controller" => "allocator, metal3's controller"
    }

    /// An address of metal3's own stays as long as its claim does, whoever deletes it.
    Finalizer PROTECT_OWN_ADDRESS = "ipaddress.ipam.metal3.io" {
        on: "IPAddress of metal3's group", value: "", "allocator, metal3's controller" => "allocator, metal3's controller"
    }

    /// The pool stays as long as an address refers to it.
    Finalizer PROTECT_POOL = "ippool.ipam.metal3.io" {
        on: "IPPool of metal3's", value: "", "allocator, metal3's controller" => "allocator, metal3's controller"
    }
}
