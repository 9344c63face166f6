//! Reads what stands under names in a JSON object.

/// Makes a struct that is read from a JSON object. Each field is the value under a name, which is a constant: serde's `rename`
/// takes literals only. What stands under other names is passed over, or kept by the type of a last field, `.. => field: Type`:
/// `Type::index` says which names count, and `put` takes their values. serde must be a dependency of the crate that uses this.
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
            $(.. => $rest:ident: $kept:ty,)?
        }
    ) => {
        $(#[$about])*
        $vis struct $object $(<$life>)? {
            $($(#[$doc])* pub $field: Option<$value>,)*
            $(/// What stands under further names.
            pub $rest: $kept,)?
        }

        const _: () = {
            use ::serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

            #[allow(non_camel_case_types, dead_code)]
            enum Name {
                $($field,)*
                Rest(usize),
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
                        _ => {
                            $(if let Some(index) = <$kept>::index(name) {
                                return Ok(Name::Rest(index));
                            })?
                            Name::Other
                        }
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
                    $(let mut $rest = <$kept>::default();)?
                    while let Some(name) = map.next_key::<Name>()? {
                        match name {
                            $(Name::$field => {
                                if $field.is_some() {
                                    return Err(A::Error::duplicate_field($name));
                                }
                                $field = Some(map.next_value()?);
                            })*
                            #[allow(unused_variables)]
                            Name::Rest(index) => {
                                $(if let Some(value) = map.next_value::<Option<String>>()? {
                                    $rest.put(index, &value);
                                })?
                            }
                            Name::Other => {
                                map.next_value::<IgnoredAny>()?;
                            }
                        }
                    }
                    Ok($object { $($field: $field.flatten(),)* $($rest,)? })
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

    /// Sums the lengths of values by the first digit of their names.
    #[derive(Debug, Default, PartialEq)]
    struct Lengths([usize; 10]);

    impl Lengths {
        fn index(name: &str) -> Option<usize> {
            name.get(..1)?.parse().ok()
        }

        fn put(&mut self, index: usize, value: &str) {
            self.0[index] += value.len();
        }
    }

    read_by_name! {
        #[derive(Debug, Default)]
        struct WithRest {
            HOLDER => holder: String,
            .. => lengths: Lengths,
        }
    }

    #[test]
    fn further_names_are_kept_by_the_last_field() {
        let text = format!(r#"{{"1a":"xy","{HOLDER}":"n1","1b":"z","other":{{}},"2":null}}"#);
        let read: WithRest = serde_json::from_str(&text).unwrap();
        assert_eq!((read.holder.as_deref(), read.lengths), (Some("n1"), Lengths([0, 3, 0, 0, 0, 0, 0, 0, 0, 0])));
    }

    #[test]
    fn a_name_that_stands_there_twice_is_refused() {
        let text = format!(r#"{{"{HOLDER}":"n1","{HOLDER}":"n2"}}"#);
        let error = serde_json::from_str::<Some_<'_>>(&text).unwrap_err().to_string();
        assert!(error.contains("duplicate field") && error.contains(HOLDER), "{error}");
    }
}
