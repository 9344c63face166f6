//! One macro for what all kinds have in common: type and version, metadata, spec and status, and the traits of kube.

/// Makes a kind.
///
/// `apiVersion` is one byte in memory, `kind` none: fifty thousand addresses are held at a time.
macro_rules! kind {
    (
        $(#[$doc:meta])*
        $name:ident = $kind:literal, $plural:literal, $group:path, $version:ty, $scope:ty, spec: $spec:ty $(, status: $status:ty)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $name {
            /// In which version it was read, or is to be created.
            #[serde(rename = "apiVersion", default)]
            pub version: $version,
            /// Name, labels and so on, whole.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is asked for.
            #[serde(default)]
            pub spec: $spec,
            $(
                /// What was made of it.
                #[serde(default)]
                pub status: Option<$status>,
            )?
        }

        impl $name {
            /// `kind`.
            pub const KIND: &'static str = $kind;
            /// What it is called in URLs.
            pub const PLURAL: &'static str = $plural;

            /// One of that name, in the newest version.
            #[must_use]
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                    name: Some(name.to_owned()),
                    ..Default::default()
                };
                Self { metadata, spec, ..Default::default() }
            }
        }

        impl kube_core::Resource for $name {
            type DynamicType = $version;
            type Scope = $scope;

            fn kind(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(version: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $crate::versions::Version::name(*version).into()
            }

            fn plural(_: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct($kind, 5)?;
                object.serialize_field("apiVersion", &self.version)?;
                object.serialize_field("kind", $kind)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                $(
                    let status: &Option<$status> = &self.status;
                    if let Some(status) = status {
                        object.serialize_field("status", status)?;
                    }
                )?
                object.end()
            }
        }
    };
}
pub(crate) use kind;
