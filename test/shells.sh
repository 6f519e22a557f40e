#!/usr/bin/env bash
# Completions and manual pages, looked at by the shells and tools that read them.
set -euo pipefail
cd "$(dirname "$0")/.."
test/packages.sh fish groff-base mandoc zsh

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PATH=$PWD/bin:$PATH
cat >"$dir/group.json" <<'GROUP'
{"version":1,"group":"g","storage":{"size":"1Gi"},"nodes":[
  {"name":"db","image":{"archive":"x"},"tag":"1"},{"name":"web","image":{"archive":"x"},"tag":"1"}]}
GROUP
for shell in bash zsh fish; do
	yuba completion $shell >"$dir/yuba.$shell"
	$shell -n "$dir/yuba.$shell"
done

# offers SHELL LINE WORDS: what a shell offers behind a line begins with these words.
offers() {
	local shell=$1 line=$2 want=$3 got
	got=$(cd "$dir" && "$shell"_offers "$line")
	case $got in
	"$want"*) ;;
	*) printf '%s offers for "%s":\n%s\nwant: %s\n' "$shell" "$line" "$got" "$want" >&2; exit 1 ;;
	esac
}

fish_offers() { # each with its description
	HOME=$dir fish --no-config -c "source yuba.fish; complete -C '$1'" | cut -f 1 | tr '\n' ' '
}

zsh_offers() { # with compadd in place of a menu
	HOME=$dir zsh -f -c '
		compdef() { :; }
		compset() { case $2 in "-*=") [[ $PREFIX == -*=* ]] ;; -) PREFIX=${PREFIX#-} ;; esac; }
		_files() { print -n "files "; }
		compadd() { local a=$argv[-1]; print -n -- ${(P)a} ""; }
		_describe() { local -a list; list=(${(P)${@[(r)(subs|switches|valued)]}}); list=(${(M)list:#${PREFIX}*}); (($#list)) && print -n -- ${list%%:*} ""; }
		source ./yuba.zsh
		words=(${(s: :)1}); [[ $1 == *" " ]] && words+=("")
		CURRENT=$#words; PREFIX=$words[-1]; _yuba || :' zsh "$1"
}

for shell in fish zsh; do
	offers $shell 'yuba k8s st' 'status'
	offers $shell 'yuba k8s logs -f w' "$([ $shell = fish ] && echo web || echo db web)"
	offers $shell 'yuba state sh' 'show'
done
offers fish 'yuba k8s apply -auto' '-auto-approve'
offers zsh 'yuba k8s apply -auto' 'auto-approve'
offers zsh 'yuba k8s apply -group=' 'files'

SOURCE_DATE_EPOCH=0 yuba man "$dir/man1"
mandoc -T lint -W warning "$dir"/man1/*.1
groff -man -Tutf8 -ww -z "$dir"/man1/*.1 2>"$dir/groff" && [ ! -s "$dir/groff" ] || {
	cat "$dir/groff" >&2
	exit 1
}
