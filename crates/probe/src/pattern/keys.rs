//! The keys of a trial's line: one function per type reads and writes them.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

use crate::tokens::Token;
use crate::wire::{Fields, Value, WireError};

/// A pair of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) key: &'static str,
    pub(super) value: Value,
    /// Whether it is written even with its default value.
    pub(super) always: bool,
}

/// The keys of a line that is being read or written. A pattern passes each of its keys with the field of its value. A
/// value that is read is stored in the field; a value that is written is taken from it.
pub struct Keys<'a> {
    mode: Mode<'a>,
}

enum Mode<'a> {
    Read(Fields<'a>),
    Write(Vec<Pair>),
}

impl<'a> Keys<'a> {
    pub(super) fn of_line(fields: Fields<'a>) -> Keys<'a> {
        Keys { mode: Mode::Read(fields) }
    }

    /// Returns the pairs that `named` writes.
    pub(super) fn written(named: impl FnOnce(&mut Keys<'_>) -> Result<(), WireError>) -> Vec<Pair> {
        let mut keys = Keys { mode: Mode::Write(Vec::new()) };
        // Writing cannot fail.
        let _ = named(&mut keys);
        match keys.mode {
            Mode::Write(pairs) => pairs,
            Mode::Read(_) => Vec::new(),
        }
    }

    /// Returns the remaining fields of a line that is read.
    pub(super) fn into_fields(self) -> Option<Fields<'a>> {
        match self.mode {
            Mode::Read(fields) => Some(fields),
            Mode::Write(_) => None,
        }
    }

    pub(super) fn reads(&self) -> bool {
        matches!(self.mode, Mode::Read(_))
    }

    /// Reads or writes one value: `read` takes it from the fields, `value` converts it for writing.
    fn field<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&mut Fields<'a>) -> Result<Option<T>, WireError>,
        value: impl FnOnce(&T) -> Option<Value>,
    ) -> Result<(), WireError> {
        match &mut self.mode {
            Mode::Read(fields) => {
                if let Some(read) = read(fields)? {
                    *target = read;
                }
            }
            Mode::Write(pairs) => {
                pairs.extend(value(target).map(|value| Pair { key, value, always: false }));
            }
        }
        Ok(())
    }

    /// Reads or writes an unsigned integer.
    ///
    /// # Errors
    /// When the value is not an unsigned integer.
    pub fn int(&mut self, key: &'static str, target: &mut u64) -> Result<(), WireError> {
        self.field(key, target, |f| f.int(key), |value| Some(Value::Int((*value).into())))
    }

    /// Reads or writes 0 or 1.
    ///
    /// # Errors
    /// When the value is neither.
    pub fn flag(&mut self, key: &'static str, target: &mut bool) -> Result<(), WireError> {
        let flag = |value| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::new(format!("trial: {key}={value} must be from 0 to 1"))),
        };
        self.field(
            key,
            target,
            |f| f.int(key)?.map(flag).transpose(),
            |value| Some(Value::Int(u8::from(*value).into())),
        )
    }

    /// Reads or writes a byte that may be absent.
    ///
    /// # Errors
    /// When the value is not a byte.
    pub fn byte(&mut self, key: &'static str, target: &mut Option<u8>) -> Result<(), WireError> {
        let byte = |v: u64| {
            u8::try_from(v).map_err(|_| WireError::new(format!("trial: {key}={v} must be from 0 to 255")))
        };
        self.field(
            key,
            target,
            |f| Ok(f.int(key)?.map(byte).transpose()?.map(Some)),
            |value| value.map(|byte| Value::Int(byte.into())),
        )
    }

    /// Reads or writes a token of an enum.
    ///
    /// # Errors
    /// When the value is not a token of the enum.
    pub fn token<T: Token>(&mut self, key: &'static str, target: &mut T) -> Result<(), WireError> {
        self.field(key, target, |f| f.one_of(key), |value| Some(Value::Token(value.word().to_owned())))
    }

    /// Reads or writes a token of an enum that is written even with its default value.
    ///
    /// # Errors
    /// When the value is not a token of the enum.
    pub fn always<T: Token>(&mut self, key: &'static str, target: &mut T) -> Result<(), WireError> {
        self.token(key, target)?;
        if let Mode::Write(pairs) = &mut self.mode
            && let Some(last) = pairs.last_mut()
        {
            last.always = true;
        }
        Ok(())
    }

    /// Reads or writes a token of an enum that may be absent.
    ///
    /// # Errors
    /// When the value is not a token of the enum.
    pub fn optional<T: Token>(&mut self, key: &'static str, target: &mut Option<T>) -> Result<(), WireError> {
        self.field(
            key,
            target,
            |f| Ok(f.one_of(key)?.map(Some)),
            |value| value.map(|value| Value::Token(value.word().to_owned())),
        )
    }

    /// Reads or writes text with its own notation.
    ///
    /// # Errors
    /// When the value is not text in this notation.
    pub fn text<T: Display>(
        &mut self,
        key: &'static str,
        target: &mut T,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<(), WireError> {
        let read = |text| parse(text).map_err(|what| WireError::new(format!("trial: {key}: {what}")));
        self.field(
            key,
            target,
            |f| f.text(key)?.map(read).transpose(),
            |value| Some(Value::Text(value.to_string())),
        )
    }

    /// Reads or writes a list of unsigned integers; an empty list is not written.
    ///
    /// # Errors
    /// When the value is not such a list.
    pub fn list(&mut self, key: &'static str, target: &mut Vec<u64>) -> Result<(), WireError> {
        self.field(
            key,
            target,
            |f| f.list(key).map(Some),
            |list| match list.as_slice() {
                [] => None,
                [one] => Some(Value::Int((*one).into())),
                all => Some(Value::List(all.iter().map(|&v| v.into()).collect())),
            },
        )
    }
}
