//! Command lines and the decisions about them in mode `default`, in an untrusted workspace that [`lay_out`] made. One test checks the
//! decisions, other tests run the lines.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A workspace `dir/work` with ordinary files, links that lead out of it, files named like options and programs named like
/// those of the system. What it must not reach is in `dir/outside`. There is a repository in it, but only as far as its own
/// files can be written without git.
pub fn lay_out(dir: &Path) {
    let work = dir.join("work");
    let put = |path: &str, text: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("below dir")).expect("a directory of the test's own");
        fs::write(path, text).expect("a directory of the test's own");
    };
    put("outside/secret.txt", "secret\n");
    put("outside/sub/deep.txt", "secret\n");
    for file in
        ["a.txt", "b.txt", "README.md", "Cargo.toml", "src/main.rs", "src/lib.rs", "src/sub/mod.rs", "docs/guide.md"]
    {
        put(&format!("work/{file}"), "fn main() {}\n// TODO one\ntwo,three\n");
    }
    put("work/c.json", "{\"name\": \"x\", \"list\": [1, 2]}\n");
    put("work/files/plain.txt", "1\n2\n");
    put("work/.git/HEAD", "ref: refs/heads/main\n");
    put("work/.git/config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n");
    fs::create_dir_all(work.join(".git/objects/info")).expect("ours");
    fs::create_dir_all(work.join(".git/refs/heads")).expect("ours");
    fs::create_dir_all(work.join(".git/hooks")).expect("ours");
    put("work/bare/HEAD", "ref: refs/heads/main\n");
    put("work/bare/config", "[core]\n\tfsmonitor = touch ../ran\n");
    fs::create_dir_all(work.join("bare/objects")).expect("ours");
    fs::create_dir_all(work.join("bare/refs")).expect("ours");
    for name in ["-exec", "-delete", "-o", "--output=x", "--pre=ls", "-rf"] {
        put(&format!("work/odd/{name}"), "");
    }
    for name in ["ls", "cat", "git", "evil.sh", "bin/rg"] {
        let path = format!("work/{name}");
        put(&path, "#!/bin/sh\ntouch \"$0.ran\"\n");
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let links = [
        ("outside_file", "../outside/secret.txt"),
        ("outside_dir", "../outside"),
        ("passwd", "/etc/passwd"),
        ("etc", "/etc"),
        ("up", ".."),
        ("inside_dir", "src"),
        ("inside_file", "a.txt"),
        ("looped", "looped"),
        ("links/passwd.txt", "/etc/passwd"),
        ("links/good.txt", "../a.txt"),
        ("links/dir", "/etc"),
        ("hooks", ".git/hooks"),
        ("src/dangling", "../../outside/new"),
    ];
    for (name, target) in links {
        let path = work.join(name);
        fs::create_dir_all(path.parent().expect("below dir")).expect("ours");
        symlink(target, path).expect("ours");
    }
}

/// These run without a question.
#[rustfmt::skip]
pub const UNASKED: &[&str] = &[
    // What coding agents run all day.
    "ls", "ls -la src", "  ls\t-l  ", "ls -1 src docs", "ls -lah", "ls -R src", "ls --color=never -A", "ls -lt | head -20", "ls -d src",
    "ls src/*.rs", "ls ./*.md", "ls -la 2>/dev/null", "ls 2>&1 | head", "ls nothing || true", "ls; pwd", "pwd && ls", "pwd", "ls\npwd\n",
    "cat a.txt", "cat a.txt | head -5", "cat -n src/main.rs", "cat a.txt b.txt", "cat 'a.txt'", "cat \"a.txt\"", "cat ./a.txt",
    "cat src/../a.txt", "cat inside_file", "cat inside_dir/main.rs", "cat < a.txt", "cat nothing.txt", "cat a.txt - b.txt", "cat -- a.txt",
    "head -5 a.txt", "head -n 5 a.txt", "head -n5 a.txt", "head -c 100 a.txt", "head --lines=3 a.txt", "tail -5 a.txt", "tail -n +2 a.txt",
    "tail -n 20 src/main.rs | head -3", "nl -ba src/main.rs", "tac a.txt", "rev a.txt", "cut -d, -f1 a.txt", "cut -d ',' -f 1,2 a.txt",
    "paste -sd, a.txt", "paste a.txt b.txt", "cat a.txt | tr a-z A-Z", "tr -d '\\n' < a.txt", "sort a.txt | uniq -c", "sort -u a.txt",
    "sort -t, -k2,2n a.txt", "sort -rn a.txt | head -1", "uniq -c a.txt", "sort a.txt | uniq -d", "wc -l src/main.rs", "wc -l < a.txt",
    "wc a.txt b.txt", "wc -l src/*.rs", "comm -12 a.txt b.txt", "diff a.txt b.txt", "diff -u a.txt b.txt", "diff -y --width=120 a.txt b.txt",
    "cmp a.txt b.txt", "cmp -s a.txt b.txt && echo same", "stat a.txt", "stat -c '%s %n' a.txt", "stat --format=%a src", "file a.txt",
    "file -b --mime-type a.txt", "du -sh .", "du -sh src docs", "du -ah --max-depth=1", "tree -L 2", "tree -a -I target src",
    "grep -rn \"fn main\" src", "grep TODO a.txt", "grep -n TODO src/main.rs", "grep -rl TODO .", "grep -rn TODO . --include=*.rs",
    "grep -rn --include='*.rs' -e TODO -e main src", "grep -c '' a.txt", "grep -i -A3 -B2 todo a.txt", "grep -E 'a|b' a.txt",
    "grep -rnw main src | head", "grep '$(touch x)' a.txt", "grep \"^fn.*{$\" src/main.rs", "grep \"\\bmain\\b\" src/main.rs", "grep -v '^//' a.txt",
    "grep -oP '\\d+' a.txt", "egrep 'a|b' a.txt", "fgrep a.b a.txt", "grep -q main src/main.rs && echo yes", "grep -3 main a.txt",
    "rg -n foo --type rust", "rg -n 'fn main' src", "rg TODO", "rg -l TODO src docs", "rg --files src", "rg --files -g '*.rs'", "rg -tpy -i foo",
    "rg -C 3 main src/main.rs", "rg -e main -e todo", "rg --hidden --no-ignore -c main", "rg -uu main", "rg -F 'a.b' .", "fd main", "fd -e rs . src",
    "find . -name '*.rs' -type f", "find src", "find . -maxdepth 2 -type d", "find . -name '*.md' -o -name '*.txt'", "find . -type f -size +1k",
    "find . \\( -name a.txt -o -name b.txt \\) -print", "find . -path ./target -prune -o -name '*.rs' -print", "find . -not -name '*.rs'",
    "find . '!' -name '*.rs'", "find src -newer a.txt", "find . -mtime -1 -printf '%p\\n'", "find . -empty", "find . -iname 'READ*' | wc -l",
    "sed -n 3,9p a.txt", "sed -n '1,20p' src/main.rs", "sed -n '/fn/,/}/p' src/main.rs", "sed -n '$p' a.txt", "sed -n '$=' a.txt", "sed -n '/a\\.b/p;2p' a.txt", "sed 's/a/b/g' a.txt",
    "sed -E 's/^ +//' a.txt", "sed 5q a.txt", "sed -n -e 1p -e 3p a.txt", "cat a.txt | sed 's|x|y|'",
    "jq . c.json", "jq -r .name c.json", "cat c.json | jq '.list | length'", "jq '.list[] | select(. > 1)' c.json", "jq -n '1 + 1'",
    "basename src/main.rs .rs", "dirname src/main.rs", "realpath src", "readlink -f inside_file", "readlink inside_dir",
    "date", "date +%Y-%m-%d", "date -u '+%H:%M'", "date -d yesterday +%F", "whoami", "id", "id -un", "hostname", "uname -a", "uname -sr", "nproc", "arch",
    "printenv PATH", "env", "echo hello", "echo 'a; rm -rf /'", "echo \"a\\$(touch x)\"", "echo -n x", "echo src/*.rs", "printf '%s\\n' a b",
    "printf '%d%%\\n' 5", "true", "false || true", "test -f a.txt", "test -f a.txt && echo yes", "[ -d src ] && echo yes", "[ a = b ]", "test 1 -lt 2",
    "seq 1 5", "expr 1 + 2", "which ls", "type ls", "command -v cargo", "md5sum a.txt", "sha256sum a.txt b.txt", "xxd a.txt", "xxd -l 16 a.txt",
    "od -c a.txt", "hexdump -C -n 16 a.txt", "strings a.txt", "column -t -s, a.txt", "fold -w 40 a.txt", "expand a.txt", "base64 a.txt",
    "cat a.txt | base64 -d", "shuf -n 1 a.txt", "numfmt --to=iec 1024", "echo 1+2 | bc",
    "cd src && ls", "cd src && cat main.rs", "cd src && cat ../a.txt", "cd src; pwd", "cd src/sub && cd .. && cat lib.rs", "cd src || pwd",
    "cd src && grep -n main main.rs", "cd ./docs && wc -l guide.md",
    // Git, in a repository of the workspace.
    "git status", "git status -sb", "git status --porcelain", "git status -uno", "git diff", "git diff HEAD~1 -- src", "git diff --stat", "git diff --cached",
    "git diff --name-only HEAD~3..HEAD", "git diff main...HEAD -- a.txt", "git log", "git log --oneline -5", "git log -p -1", "git log --graph --oneline --all",
    "git log --since='2 weeks ago' --author=x", "git log --format='%h %s' -n 3", "git log -S main -- src", "git --no-pager log -3", "git --no-pager diff",
    "git show", "git show HEAD", "git show HEAD:src/main.rs", "git show --stat HEAD~2", "git branch", "git branch -a", "git branch -vv",
    "git branch --show-current", "git branch --list 'f*'", "git branch --merged main", "git rev-parse HEAD", "git rev-parse --abbrev-ref HEAD",
    "git rev-parse --show-toplevel", "git ls-files", "git ls-files '*.rs'", "git blame src/main.rs", "git blame -L 1,5 src/main.rs", "git describe --tags --always",
    "git tag", "git tag -l 'v*'", "git tag --sort=-creatordate | head -3", "git remote -v", "git remote get-url origin", "git stash list", "git stash show -p stash@{0}",
    "git config --get user.name", "git config --list", "git shortlog -sn", "git grep -n main", "git grep -e a -- src", "git cat-file -p HEAD",
    "git ls-tree -r HEAD --name-only", "git merge-base main HEAD", "git reflog", "git reflog -5", "git worktree list", "git --version", "git check-ignore -v a.txt",
    "cd src && git log --oneline -3 -- main.rs", "git status && git diff --stat", "git log -1 | cat", "git rev-list --count HEAD", "git show-ref --tags",
    // Versions of the system's programs.
    "node --version", "node -v", "python3 --version", "python3 -V", "gcc --version | head -1", "go version", "java -version 2>&1", "make --version", "bash --version",
    // Odd, and all the same only reading.
    "'l's", "\"ls\" \"-l\"", "l''s", "ls -- -exec", "cat odd/-exec", "ls odd/-*", "echo if then fi", "echo a#b", "echo a=b", "cat a.txt\t|\twc", "ls;",
    "ls &>/dev/null", "ls >/dev/null 2>&1", "cat </dev/null", "echo 'é ü'", "ls größe", "echo '*' \"?\" \\*", "cat /dev/null", "ls >&2",
];

/// These need approval whatever the files are.
#[rustfmt::skip]
pub const ASKS: &[(&str, &str)] = &[
    // Programs that do something.
    ("rm -rf /", "not known to only read"), ("sleep 60", "holds a worker"), ("touch x", "writes"), ("mkdir x", "writes"), ("cp a.txt x", "writes"), ("mv a.txt x", "writes"),
    ("chmod 777 a.txt", "writes"), ("ln -s a x", "writes"), ("tee x", "writes"), ("ls | tee x", "a part writes"), ("dd if=a.txt of=x", "writes"),
    ("truncate -s 0 a.txt", "writes"), ("install a.txt x", "writes"), ("make", "runs anything"), ("cargo build", "runs anything"), ("npm test", "runs anything"),
    ("curl http://x", "network"), ("wget x", "network"), ("ssh x", "network"), ("nc -l 1", "network"), ("kill 1", "signals"), ("./ls", "a program of the workspace"),
    ("./evil.sh", "a program of the workspace"), ("bin/rg x", "a program of the workspace"), ("/usr/bin/ls", "by its path"), ("ps aux", "does not work confined"),
    ("python3 -c 'print(1)'", "runs anything"), ("node -e 1", "runs anything"), ("perl -e 1", "runs anything"), ("awk 'BEGIN{system(\"touch x\")}'", "runs"),
    ("tar xf a.tar", "writes"), ("unzip a.zip", "writes"), ("less a.txt", "runs"), ("vim a.txt", "runs"), ("man ls", "runs a pager"), ("crontab -l", "not known"),
    ("sudo ls", "as somebody else"), ("su -c ls", "as somebody else"),
    // Something else in the same line.
    ("ls; rm -rf x", "a list has two commands"), ("ls;touch x", "without a blank, too"), ("ls && touch x", "a list"), ("ls || touch x", "a list"),
    ("ls | touch x", "a pipe"), ("ls |& touch x", "a pipe with errors"), ("ls & touch x", "a list"), ("ls &", "in the background"), ("ls\ntouch x", "a line end"),
    ("ls\r\ntouch x", "a control character"), ("ls # \n touch x", "a comment ends with its line"), ("ls # ; rm -rf /", "a comment"), ("ls \\\n; touch x", "a joined line"),
    ("(ls)", "a subshell"), ("(ls; touch x)", "a subshell"), ("{ ls; }", "a group"), ("{ ls; touch x; }", "a group"), ("! ls", "negated"), ("time ls", "a reserved word"),
    ("if ls; then touch x; fi", "compound"), ("while ls; do touch x; done", "compound"), ("for i in 1; do touch x; done", "compound"),
    ("case a in a) touch x;; esac", "compound"), ("until ls; do touch x; done", "compound"), ("select x in a; do touch x; done", "compound"),
    ("ls() { touch x; }; ls", "a function"), ("function ls { touch x; }", "a function"), ("alias ls=rm; ls x", "an alias"), ("coproc touch x", "compound"),
    ("[[ 'a[$(touch x)]' -eq 0 ]]", "a test evaluates even what is quoted"), ("((a[$(touch x)]))", "arithmetic"), ("let 'a[$(touch x)]=1'", "arithmetic"),
    // Words of loops and cases that bash evaluates.
    ("for x in '$(touch P)'; do case ${x@P} in *) true;; esac; done", "a loop's word is evaluated"),
    ("for x in '$(touch P)'; do echo ${x@P}; done", "a loop's word is evaluated"),
    ("for x in 'a[$(touch P)]'; do case $((x)) in *) true;; esac; done", "arithmetic on a loop's word"),
    ("for x in 'a[$(touch P)]'; do echo ${!x}; done", "indirect expansion"), ("for x in 'a[$(touch P)]'; do echo ${y:x}; done", "substring expansion"),
    ("case 'a[$(touch P)]' in *) ls;; esac", "a case"), ("for x in 'a[$(touch P)]'; do test -v $x; done", "a subscript"),
    ("select x in '$(touch P)'; do echo ${x@P}; break; done", "a loop's word is evaluated"), ("for ((;;)); do touch x; done", "arithmetic"),
    ("case ${x:='$(touch P)'} in *) echo ${x@P};; esac", "assigns by expansion"), ("echo ${a[$(touch P)]}", "a subscript"),
    // Variables that change which program runs.
    ("for PATH in .; do ls; done", "sets PATH"), ("echo {PATH}>/dev/null; ls", "sets PATH"), ("echo $((PATH=5)); ls", "sets PATH"), ("PATH=. ls", "sets PATH"),
    ("PATH=.; ls", "sets PATH"), ("export PATH=.; ls", "sets PATH"), ("read PATH < a.txt; ls", "sets PATH"), ("printf -v PATH .; ls", "sets PATH"),
    ("printf 'abc%n' PATH; ls", "sets PATH"), ("printf '%*n' 1 PATH", "sets PATH"), ("printf 'x%n' 'a[$(touch x)]'", "runs a subscript"), ("getopts a PATH", "sets PATH"),
    ("mapfile PATH < a.txt", "sets PATH"), ("declare PATH=.", "sets PATH"), ("unset PATH", "sets PATH"), ("hash -p ./ls ls; ls", "another program"),
    ("LD_PRELOAD=./evil.so ls", "variables change programs"), ("GIT_PAGER=./evil.sh git log", "variables change programs"), ("IFS=x", "a variable"), ("a=(x y) ls", "a variable"),
    ("a[0]=x ls", "a variable"), ("test -v 'a[$(touch x)]'", "runs a subscript"), ("[ -v 'a[$(touch x)]' ]", "runs a subscript"), ("enable -f ./evil.so x", "loads code"),
    ("echo $PATH", "expands"), ("echo \"$HOME\"", "expands"), ("cat $x", "expands"), ("$CMD", "expands"), ("l$x", "expands"), ("ls${IFS}-la", "expands"),
    // Substitutions.
    ("ls $(touch x)", "a substitution"), ("ls \"$(touch x)\"", "quotes do not stop it"), ("ls `touch x`", "backticks"), ("ls \"`touch x`\"", "backticks"),
    ("ls $(ls)", "a substitution"), ("cat <(touch x)", "a process"), ("ls > >(touch x)", "a process"), ("echo ${x:-$(touch y)}", "a substitution"),
    ("echo $((1+$(touch x)))", "arithmetic"), ("echo $[1]", "arithmetic"), ("echo $'a\\'; touch x; echo \\''", "a plain sh would run the middle"), ("echo $\"x\"", "a translation"),
    ("cat <<EOF\n$(touch x)\nEOF", "a here document"), ("cat <<'EOF'\nx\nEOF", "a here document"), ("cat <<< a", "a here string"),
    // Words that are not what they seem.
    ("/bin/l?", "a pattern for a program"), ("{touch,x}", "braces"), ("echo {a,b}", "braces"), ("echo {1..3}", "braces"), ("cat ~/.ssh/id_rsa", "a home directory"),
    ("cat a~b:~", "a home directory"), ("echo x=~", "a home directory"), ("ls *", "may match an option"), ("sort *", "may match an option"), ("find * -name x", "may match an option"),
    ("cat *.rs", "may match an option"), ("cat .*", "matches the parent"), ("cat src/.*", "matches the parent"), ("cat .*/x", "matches the parent"), ("!!", "history"), ("l\\s", "a backslash"),
    ("ls -*", "becomes options"), ("find . -exec touch {} +", "braces and an action"), ("ls 'a", "a quote does not end"), ("ls \"a", "a quote does not end"), ("ls \\", "a backslash"),
    ("ls &&", "nothing follows"), ("ls ;; touch x", "not a command"), ("ls )", "not a command"), ("", "nothing to run"), ("# only words", "nothing to run"),
    ("ls\u{a0}-la", "not a blank"), ("ls\u{200b}", "not ls"), ("l\u{0455}", "a letter of another alphabet"), ("ls \u{202e}cod.txt", "turns the direction of writing"),
    ("ls \u{1b}[2K", "an order to the screen"), ("ls                                                                   ; pwd", "pushed out of sight"),
    // Redirections.
    ("> a.txt", "empties a file"), ("ls > x", "writes"), ("ls >> x", "writes"), ("ls >| x", "writes"), ("ls &> x", "writes"), ("ls >& x", "writes"), ("ls 2> x", "writes"),
    ("ls <> x", "opens for writing"), ("ls 3>x", "another descriptor"), ("ls >&-", "closes"), ("echo x > .git/hooks/pre-commit", "writes"), ("exec > x", "all that follows writes"),
    ("echo x > /dev/tcp/host/80", "a connection"), ("echo x > /dev/udp/host/80", "a connection"),
    // Programs that start programs.
    ("sh -c 'ls'", "a script"), ("bash -c 'touch x'", "a script"), ("bash -lc ls", "a script"), ("bash a.txt", "a script"), ("sh < a.txt", "a script"), ("ls | sh", "a script"),
    ("ls | bash -v", "a script"), ("sh -V", "reads a script"), ("bash version", "a script"), ("node version", "a script"), ("eval ls", "evaluates"), (". ./a.txt", "runs a file"),
    ("source a.txt", "runs a file"), ("trap 'touch x' EXIT", "runs later"), ("xargs rm", "starts another"), ("ls | xargs cat", "starts another"), ("env ls", "starts another"),
    ("env -S 'touch x'", "starts another"), ("nohup ls", "starts another"), ("timeout 5 ls", "starts another"), ("command ls", "starts another"), ("command -p ls", "starts another"),
    ("builtin eval ls", "starts another"), ("exec ls", "starts another"), ("nice ls", "starts another"), ("setsid ls", "starts another"), ("watch ls", "starts another"),
    ("busybox touch x", "starts another"), ("parallel touch", "starts another"), ("flock x ls", "starts another"), ("script -c ls", "starts another"), ("strace ls", "starts another"),
    // Options and operands that write or run.
    ("find . -exec touch x \\;", "starts another"), ("find . -execdir ls \\;", "starts another"), ("find . -ok rm", "starts another"), ("find . -delete", "deletes"),
    ("find . -fprint x", "writes"), ("find . -fls x", "writes"), ("find . -fprintf x y", "writes"), ("find -L .", "follows links"), ("find . -follow", "follows links"),
    ("find . -files0-from a.txt", "reads names"), ("sed -i s/x/y/ a.txt", "edits"), ("sed -n '1p;w x' a.txt", "writes"), ("sed 's/x/y/e' a.txt", "runs"), ("sed 's/x/y/w z' a.txt", "writes"),
    ("sed '1e touch x' a.txt", "runs"), ("sed -f a.txt b.txt", "a script"), ("sed e a.txt", "runs"), ("sed -n '/\\/p;/e touch x/p' a.txt", "runs"), ("sed -n '/\\/,/w x/p' a.txt", "writes"), ("sed -n 'w x' a.txt", "writes"), ("sed --in-place s/x/y/ a.txt", "edits"),
    ("sort -o x a.txt", "writes"), ("sort -uox a.txt", "writes"), ("sort --out=x a.txt", "abbreviated"), ("sort --output=x a.txt", "writes"),
    ("sort --compress-program=./evil.sh a.txt", "runs"), ("sort -T . a.txt", "writes"), ("sort --files0-from=a.txt", "reads names"), ("uniq a.txt x", "writes its second file"),
    ("echo x | uniq - .git/hooks/post-checkout", "writes its second file"), ("uniq - outside_file", "writes its second file"), ("uniq src/*", "may be two files"),
    ("xxd a.txt x", "writes its second file"), ("xxd -r a.txt x", "writes"), ("shuf -o x a.txt", "writes"), ("tree -o x", "writes"), ("tree -l", "follows links"), ("split a.txt", "writes"),
    ("csplit a.txt 1", "writes"), ("base64 -o x a.txt", "unknown"), ("date -s tomorrow", "sets the clock"), ("date 010100002030", "sets the clock"), ("date --set=now", "sets the clock"),
    ("hostname evil", "sets the name"), ("hostname -F a.txt", "sets the name"), ("file -C -m a.txt", "writes"), ("file -p a.txt", "sets times"), ("file -f a.txt", "reads names"),
    ("rg --pre ./evil.sh x", "runs"), ("rg --pre=./evil.sh x", "runs"), ("rg -z x", "runs"), ("rg --search-zip x", "runs"), ("rg --hostname-bin ./evil.sh x", "runs"), ("rg -L x", "follows links"),
    ("rg --follow x", "follows links"), ("rg --pr=./evil.sh x", "abbreviated"), ("fd -x rm", "runs"), ("fd --exec rm", "runs"), ("fd -X rm", "runs"), ("grep -R x .", "follows links"),
    ("grep --dereference-recursive x .", "follows links"), ("grep --inc='*' x", "abbreviated"), ("ls -L links", "follows links"), ("ls --dereference links", "follows links"),
    ("diff -r links src", "follows links"), ("du -L links", "follows links"), ("wc --files0-from=a.txt", "reads names"), ("du --files0-from=a.txt", "reads names"),
    ("md5sum -c a.txt", "reads names"), ("tail -f a.txt", "does not end"), ("jq -f a.txt c.json", "a script"), ("jq 'import \"x\" as x; .' c.json", "a module"), ("jq 'include \"x\"; .'", "a module"),
    ("cd", "goes home"), ("cd -", "goes back"), ("cd -P src", "an option"), ("cd src docs", "two"), ("cd ''", "empty"), ("pushd src", "not known"), ("tail --follow a.txt", "does not end"),
    ("command cat a.txt", "starts another"), ("type -x ls", "unknown"), ("env A=b", "an operand"), ("env -i", "an option"), ("expand src/* > x", "writes"), ("cargo", "no question about its version"),
    // Git that does more than read.
    ("git", "nothing"), ("git push", "changes"), ("git commit -m x", "changes"), ("git add .", "changes"), ("git checkout .", "changes"), ("git fetch", "network"), ("git pull", "network"),
    ("git branch x", "makes a branch"), ("git branch -D x", "deletes a branch"), ("git branch -m x", "renames"), ("git branch --sort -l x", "makes a branch"), ("git branch -v x", "makes a branch"),
    ("git tag x", "makes a tag"), ("git tag -d x", "deletes a tag"), ("git tag -n x", "makes a tag"), ("git stash", "changes"), ("git stash pop", "changes"), ("git stash drop", "changes"),
    ("git remote add x y", "changes"), ("git remote show origin", "network"), ("git reflog expire --all", "changes"), ("git reflog delete x", "changes"), ("git config user.name x", "changes"),
    ("git config --global --list", "unknown"), ("git config --file a.txt --list", "another file"), ("git worktree add x", "changes"), ("git symbolic-ref HEAD refs/heads/x", "changes"),
    ("git -c core.pager=./evil.sh log", "configures"), ("git -C src log", "another directory"), ("git --exec-path=. status", "runs"), ("git --git-dir=bare log", "another repository"),
    ("git --work-tree=/ status", "another tree"), ("git -p log", "a pager"), ("git log --output=x", "writes"), ("git diff --outp=x", "abbreviated"), ("git diff --output x", "writes"),
    ("git diff --ext-diff", "runs"), ("git log --ext-diff -p", "runs"), ("git show --textconv", "runs"), ("git diff --no-index a.txt b.txt", "other files"), ("git grep -O main", "runs"),
    ("git grep --open-files-in-pager=./evil.sh x", "runs"), ("git grep --no-index x", "other files"), ("git log --show-signature", "runs"), ("git cat-file --textconv HEAD:a", "runs"),
    ("git cat-file --filters HEAD:a", "runs"), ("git diff --submodule=diff", "other repositories"), ("git diff -Oa.txt", "unknown"), ("git submodule status", "runs"), ("git describe --dirty", "other repositories"),
    ("git diff-files", "other repositories"), ("git diff-index HEAD", "other repositories"), ("git bisect run ls", "runs"),
    ("git archive HEAD", "not known"), ("git ls-remote", "network"), ("git help log", "a pager"), ("git var GIT_EDITOR", "not known"), ("git evil", "not known"), ("git rebase -x ls", "runs"),
    ("git ls-files --recurse-submodules", "other repositories"), ("git blame --contents a.txt b.txt", "unknown"), ("git rev-parse --parseopt", "unknown"), ("git status > x", "writes"),
    ("./git status", "a program of the workspace"),
];

/// Commands that only read, but not only the workspace or its repository. They need approval because of what is on the disk.
#[rustfmt::skip]
pub const LEADS_OUT: &[(&str, &str)] = &[
    ("cat /etc/passwd", "outside"), ("cat ../outside/secret.txt", "outside"), ("cat src/../../outside/secret.txt", "outside"), ("cat outside_file", "a link"), ("cat passwd", "a link"),
    ("cat outside_dir/secret.txt", "a link"), ("cat up/outside/secret.txt", "a link"), ("cat etc/passwd", "a link"), ("head -1 passwd", "a link"), ("ls /", "outside"), ("ls ..", "outside"),
    ("ls outside_dir", "a link"), ("ls outside_dir/", "a link"), ("ls /workspace", "outside"), ("cd outside_dir && cat secret.txt", "a link"), ("cd etc && cat passwd", "a link"),
    ("cd up && ls", "a link"), ("cd .. && ls", "outside"), ("cd / && cat etc/passwd", "outside"), ("cd src && cat ../../outside/secret.txt", "outside"),
    ("cd src; cat ../../outside/secret.txt", "outside"), ("cd src; cat ../a.txt", "if cd fails, outside"), ("cd nothing; cat ../a.txt", "if cd fails, outside"), ("cd inside_dir && ls ..", "a link"),
    ("cd src && cd ../.. && ls", "outside"), ("cd src | cat ../a.txt", "cd in a pipe"), ("grep -rn x outside_dir", "a link"), ("grep -rn x /etc", "outside"), ("grep -f/etc/passwd x", "outside"),
    ("grep --file=/etc/passwd a.txt", "outside"), ("grep -f passwd a.txt", "a link"), ("grep -e x /etc/passwd", "outside"), ("rg x /etc", "outside"), ("rg -f /etc/passwd x", "outside"),
    ("rg --files /etc", "outside"), ("find / -name x", "outside"), ("find . -newer /etc/passwd", "outside"), ("find .. -name x", "outside"), ("find src outside_dir", "a link"),
    ("cat links/*.txt", "a pattern matches a link"), ("cat links/*", "a pattern matches a link"), ("cat link*/*.txt", "a pattern matches a link"), ("echo /etc/*", "outside"), ("ls outside_dir/*", "a link"),
    ("wc -l < /etc/passwd", "outside"), ("cat < passwd", "a link"), ("cat < /dev/tcp/host/80", "a connection"), ("cat /dev/zero", "outside"), ("cat /proc/self/environ", "outside"),
    ("stat /etc/passwd", "outside"), ("readlink -f passwd", "a link"), ("realpath --relative-to=/ a.txt", "outside"), ("du -sh /", "outside"), ("test -f /etc/passwd", "outside"),
    ("diff a.txt passwd", "a link"), ("diff links src", "directories are compared through links"), ("date -r /etc/passwd", "outside"), ("cat looped", "a link without an end"), ("cat src/dangling", "a link"),
    ("sed -n 1p /etc/passwd", "outside"), ("jq . /etc/passwd", "outside"), ("sort passwd", "a link"), ("uniq passwd", "a link"), ("xxd passwd", "a link"),
    ("git diff /etc/passwd /dev/null", "outside"), ("git log -- ../outside", "outside"), ("git diff a.txt ../outside/secret.txt", "outside"), ("cd bare && git status", "looks like a bare repository"),
    ("ls && cat /etc/passwd", "outside"), ("cat a.txt | diff - /etc/passwd", "outside"),
];
