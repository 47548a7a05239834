//! File tricks: links, races and files that something outside of the sandbox reads or writes later.

use crate::target::Target;

#[tokio::test]
async fn hooks_and_configuration_of_the_repository_cannot_be_planted() {
    let target = Target::new();
    let attack = target
        .attack(
            "printf '#!/bin/sh\\ntouch %s\\n' $TROPHY >evil; chmod +x evil; cp evil .git/hooks/post-checkout; cp evil .git/hooks/pre-commit; \
             git config core.fsmonitor $PROJECT/evil; git config core.hooksPath $PROJECT; git config alias.status '!./evil'; \
             mv .git .git-gone; mv .git/hooks .git/gone; mv .git/config .git/gone; ln -sf $PROJECT/evil .git/config; rm -rf .git/hooks; \
             echo done",
        )
        .await;
    assert_eq!(attack.code, Some(0), "{attack:?}");
    assert!(attack.said.contains("raider"), "{attack:?}");
    target.person_uses_git();
    assert_eq!(
        target
            .as_person(
                "git checkout -q -b other && git commit -q --allow-empty -m x && git rev-parse --abbrev-ref HEAD"
            )
            .trim(),
        "other"
    );
    assert!(!target.trophy().exists());
}
