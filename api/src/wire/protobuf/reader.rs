//! Reader of protobuf fields from a byte slice, by wire type, without knowledge of messages.

use super::WireError;

/// Contents of one field by wire type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 5; Kubernetes has no such field.
    Fixed32,
}

/// Field number with its contents.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireField<'a> {
    pub(super) number: u32,
    pub(super) payload: Payload<'a>,
}

impl<'a> WireField<'a> {
    pub(super) fn varint(self) -> Result<u64, WireError> {
        match self.payload {
            Payload::Varint(value) => Ok(value),
            _ => Err(self.mismatch()),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], WireError> {
        match self.payload {
            Payload::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch()),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Utf8)
    }

    pub(super) fn mismatch(self) -> WireError {
        let wire = match self.payload {
            Payload::Varint(_) => 0,
            Payload::Fixed64(_) => 1,
            Payload::Bytes(_) => 2,
            Payload::Fixed32 => 5,
        };
        WireError::WireType { wire, number: self.number }
    }
}

/// Iterator over the fields of one message.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<WireField<'a>>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n != 0).ok_or(WireError::Tag)?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Truncated)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => self.fixed::<4>().map(|_| Payload::Fixed32)?,
            wire => return Err(WireError::WireType { wire: wire as u8, number }),
        };
        Ok(Some(WireField { number, payload }))
    }

    /// Reads one varint.
    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for at in 0..10 {
            let (&byte, rest) = self.0.split_first().ok_or(WireError::Truncated)?;
            self.0 = rest;
            if at == 9 && byte > 1 {
                return Err(WireError::Overflow);
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Overflow)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }
}
