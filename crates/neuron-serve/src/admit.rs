//! Who is served.

/// Whose programs are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admit {
    /// The server's own user's.
    #[default]
    Own,
    /// These users' as well.
    Users(Vec<u32>),
    /// Everybody's.
    Everybody,
}

impl Admit {
    /// Whether a user's programs are served by a server of user `own`.
    #[must_use]
    pub fn admits(&self, user: u32, own: u32) -> bool {
        match self {
            Self::Own => user == own,
            Self::Users(users) => user == own || users.contains(&user),
            Self::Everybody => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_served_only_where_that_was_said() {
        assert!(
            Admit::Own.admits(1000, 1000) && !Admit::Own.admits(1001, 1000) && !Admit::Own.admits(0, 1000)
        );
        let some = Admit::Users(vec![1001]);
        assert!(some.admits(1000, 1000) && some.admits(1001, 1000) && !some.admits(1002, 1000));
        assert!(Admit::Everybody.admits(1002, 1000));
    }
}
