//! Reads what stands under names in a JSON object.

/// Makes a struct that is read from a JSON object. Each field is the value under a name, which is a constant: serde's `rename`
/// takes literals only. What stands under other names is passed over. serde must be a dependency of the crate that uses this.
///
/// ```
/// mooring_names::read_by_name! {
///     #[derive(Default)]
///     pub struct Labels {
///         mooring_names::labels::ADVERTISE => advertise: String,
///     }
/// }
/// let labels: Labels = serde_json::from_str(r#"{"mooring.dev/advertise": "true", "app": "web"}"#).unwrap();
/// assert_eq!(labels.advertise.as_deref(), Some("true"));
/// ```
#[macro_export]
macro_rules! read_by_name {
    (
        $(#[$about:meta])*
        $vis:vis struct $object:ident $(<$life:lifetime>)? {
            $($(#[$doc:meta])* $name:path => $field:ident: $value:ty,)*
        }
    ) => {
        $(#[$about])*
        $vis struct $object $(<$life>)? {
            $($(#[$doc])* pub $field: Option<$value>,)*
        }

        const _: () = {
            use ::serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

            #[allow(non_camel_case_types)]
            enum Name {
                $($field,)*
                Other,
            }

            struct Names;

            impl<'de> Deserialize<'de> for Name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_identifier(Names)
                }
            }

            impl Visitor<'_> for Names {
                type Value = Name;

                fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.write_str("a name")
                }

                fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
                    Ok(match name {
                        $($name => Name::$field,)*
                        _ => Name::Other,
                    })
                }
            }

            struct Values<T>(::std::marker::PhantomData<T>);

            impl<'de $(: $life, $life)?> Visitor<'de> for Values<$object $(<$life>)?> {
                type Value = $object $(<$life>)?;

                fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.write_str("names with values")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    $(let mut $field: Option<Option<$value>> = None;)*
                    while let Some(name) = map.next_key::<Name>()? {
                        match name {
                            $(Name::$field => {
                                if $field.is_some() {
                                    return Err(A::Error::duplicate_field($name));
                                }
                                $field = Some(map.next_value()?);
                            })*
                            Name::Other => {
                                map.next_value::<IgnoredAny>()?;
                            }
                        }
                    }
                    Ok($object { $($field: $field.flatten(),)* })
                }
            }

            impl<'de $(: $life, $life)?> Deserialize<'de> for $object $(<$life>)? {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_map(Values(::std::marker::PhantomData))
                }
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde::de::IgnoredAny;

    use crate::annotations::{CONFLICT, HOLDER, PAUSED};

    read_by_name! {
        /// Some of them.
        #[derive(Debug, Default)]
        struct Some_<'a> {
            PAUSED => paused: IgnoredAny,
            HOLDER => holder: Cow<'a, str>,
            CONFLICT => conflict: u32,
        }
    }

    #[test]
    fn values_are_read_by_name() {
        let text = format!(r#"{{"x":[1],"{PAUSED}":"","{HOLDER}":"n1","{CONFLICT}":null}}"#);
        let read: Some_<'_> = serde_json::from_str(&text).unwrap();
        assert!(read.paused.is_some() && read.conflict.is_none());
        assert_eq!(read.holder.as_deref(), Some("n1"));
        let nothing: Some_<'_> = serde_json::from_str("{}").unwrap();
        assert!(nothing.paused.is_none() && nothing.holder.is_none());
    }

    #[test]
    fn a_name_that_stands_there_twice_is_refused() {
        let text = format!(r#"{{"{HOLDER}":"n1","{HOLDER}":"n2"}}"#);
        let error = serde_json::from_str::<Some_<'_>>(&text).unwrap_err().to_string();
        assert!(error.contains("duplicate field") && error.contains(HOLDER), "{error}");
    }
}
