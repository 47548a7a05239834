//! File tricks: links, races and files that something outside of the sandbox reads or writes later.

use crate::target::{Seat, Target};

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
    assert!(attack.output.contains("raider"), "{attack:?}");
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

/// Makes a git folder `evil` whose settings run code, and tries every way to divert the project's git to it.
const DIVERT: &str = r#"git init -q evil; git -C evil config core.fsmonitor "touch $TROPHY; false"
cd .git || exit 1
for file in commondir config.worktree gitdir; do
  echo ../evil/.git >$file 2>/dev/null; cp ../evil/.git/config $file.new; mv -f $file.new $file; rm -f $file; ln -sf ../evil/.git/config $file
done
rm -f gitdir
for name in hooks info modules worktrees remotes branches; do
  mv $name gone-$name; rm -rf $name; mkdir -p $name/lib; cp -r ../evil/.git/. $name/lib; ln -sfn ../evil $name
done
echo '* filter=evil' >info/attributes; echo '!.rookery' >info/exclude; printf 'URL: ../evil\n' >remotes/origin; printf '../evil\n' >branches/origin
cd ..; rm -rf evil; echo done
"#;

#[tokio::test]
async fn git_cannot_be_diverted_to_other_settings() {
    let target = Target::new();
    let attack = target.attack(DIVERT).await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    target.person_uses_git();
    for name in ["commondir", "config.worktree", "gitdir", "info/attributes", "remotes/origin", "branches/origin"] {
        assert!(!target.root().join(".git").join(name).exists(), "{name} exists");
    }
    let kept = target.as_person("git commit -q --allow-empty -m mine && git rev-parse --git-common-dir");
    assert_eq!(kept.trim(), ".git", "the repository must be unchanged");
}

#[tokio::test]
async fn submodule_settings_cannot_be_planted() {
    let target = Target::new();
    target.as_person(
        "git init -q -b main lib && git -C lib commit -q --allow-empty -m first && mv lib ../lib && \
         git -c protocol.file.allow=always submodule --quiet add ../lib lib && git commit -qm sub",
    );
    let attack = target
        .attack(
            "git -C lib config core.fsmonitor \"touch $TROPHY; false\"; echo 'touch $TROPHY' >.git/modules/lib/hooks/post-checkout; \
             mv .git/modules/lib .git/modules/gone; mv .git/modules .git/gone; rm -f lib/.git; mkdir -p .git/modules/other; \
             printf '[core]\\nfsmonitor = touch %s; false\\n' $TROPHY >.git/modules/lib/config.worktree; \
             git -C lib log --oneline | grep -q first && echo read; echo done",
        )
        .await;
    assert!(attack.transcript.contains("read"), "the agent's own git works in the submodule: {attack:?}");
    target.person_uses_git();
    target.as_person("git -C lib status; git submodule update; git submodule status");
    assert!(!target.trophy().exists());
}

#[tokio::test]
async fn worktree_agent_cannot_divert_its_own_or_other_worktrees() {
    let target = Target::new();
    target.as_person("git worktree add -q ../mine -b mine");
    let attack = target
        .attack_from(
            &Seat::worktree(),
            "git init -q evil; git -C evil config core.fsmonitor \"touch $TROPHY; false\"; own=$(git rev-parse --absolute-git-dir); \
             for admin in $own $PROJECT/.git/worktrees/mine; do for file in commondir gitdir config.worktree HEAD; do \
             [ $admin/$file = $own/HEAD ] || { echo $PWD/evil/.git >$admin/$file && echo wrote $admin/$file; mv $admin/$file $admin/x && echo moved $admin/$file; }; done; \
             mv $admin $admin-gone && echo moved $admin; done; rm -f .git && echo removed .git; mv $PROJECT/.git/worktrees $PROJECT/.git/w && echo moved; \
             rm -rf evil; echo new >file; git add file; git commit -qm theirs && echo committed",
        )
        .await;
    assert!(attack.transcript.contains("committed"), "{attack:?}");
    for word in ["wrote", "moved", "removed"] {
        assert!(!attack.transcript.contains(word), "{word}: {attack:?}");
    }
    target.person_uses_git();
    target.as_person("cd ../mine && git status");
    assert!(!target.trophy().exists());
}

#[tokio::test]
async fn own_folders_are_never_staged() {
    for seat in [Seat::shared(), Seat::worktree()] {
        let target = Target::new();
        let attack = target.attack_from(&seat, "echo new >file; git add -A; git commit -qm all; git ls-files").await;
        assert!(attack.transcript.contains("file"), "{attack:?}");
        assert!(!attack.transcript.contains(".rookery"), "{attack:?}");
        let staged = target.as_person("git add -A; git ls-files; git status --short --ignored=no");
        assert!(!staged.contains(".rookery") && !staged.contains(".worktrees"), "{staged}");
    }
}

#[tokio::test]
async fn folder_to_write_that_became_a_link_is_refused() {
    let target = Target::new();
    target.attack("ln -s $PERSON_HOME/.ssh cache; echo done").await;
    let seat = Seat::shared().with("sandbox: {write: [cache]}");
    let attack =
        target.attack_from(&seat, "ls cache/ && echo listed; cat cache/*; echo x >cache/authorized_keys").await;
    assert!(!attack.transcript.contains("listed"), "{attack:?}");
    assert!(attack.output.contains("a link leads from"), "{attack:?}");
}

#[tokio::test]
async fn repository_made_by_an_agent_is_reported() {
    let target = Target::new();
    let attack = target.attack("git init -q vendor; git -C vendor commit -q --allow-empty -m x; echo done").await;
    assert!(attack.output.contains("vendor/.git: an agent created this repository"), "{attack:?}");
}

/// Links every name that the runner might write while it overrides `.cursor/mcp.json` to a private file of the person.
const DIVERT_OVERRIDE: &str = r#"mkdir -p .cursor; echo '{}' >.cursor/mcp.json
for name in mcp.rookery-new mcp.json.rookery-new mcp.json.rookery-kept mcp.rookery-kept mcp.json.tmp; do
  ln -s "$PROJECT/.rookery/person.key" .cursor/$name
done"#;

#[tokio::test]
async fn overridden_file_is_not_written_through_planted_links() {
    let target = Target::new();
    target.install("cursor-agent", "cat .cursor/mcp.json >seen.json 2>/dev/null; echo fake");
    target.attack(DIVERT_OVERRIDE).await;
    let attack = target.attack_from(&Seat::shared().with_backend("cursor"), "").await;
    let seen = std::fs::read_to_string(target.root().join("seen.json")).unwrap_or_default();
    assert!(seen.contains("rookery"), "the file must be overridden during the turn: {attack:?}");
    let restored = std::fs::read_to_string(target.root().join(".cursor/mcp.json")).unwrap();
    assert_eq!(restored, "{}\n", "the file must be restored");
}

#[tokio::test]
async fn override_in_a_folder_that_is_a_link_is_refused() {
    let target = Target::new();
    target.install("cursor-agent", "echo fake");
    target.attack("ln -s $PERSON_HOME/.config .cursor").await;
    let attack = target.attack_from(&Seat::shared().with_backend("cursor"), "").await;
    assert_ne!(attack.code, Some(0), "{attack:?}");
    assert!(attack.output.contains(".cursor"), "the reason must be printed: {attack:?}");
}
