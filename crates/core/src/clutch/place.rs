//! Where in a message something is: a path on the stack that costs nothing until it is written down.

#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Entry(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// As a JSON pointer (RFC 6901).
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        self.write(&mut pointer);
        pointer
    }

    fn write(&self, pointer: &mut String) {
        match self {
            Place::Root => {}
            Place::Field(parent, name) => {
                parent.write(pointer);
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Place::Entry(parent, index) => {
                parent.write(pointer);
                pointer.push('/');
                pointer.push_str(&index.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_escaped_as_the_rfc_says() {
        let root = Place::Root;
        let field = Place::Field(&root, "a/b~c");
        let entry = Place::Entry(&field, 3);
        assert_eq!(root.pointer(), "");
        assert_eq!(entry.pointer(), "/a~1b~0c/3");
        assert_eq!(Place::Field(&entry, "").pointer(), "/a~1b~0c/3/");
    }
}
