# Completions of yuba for bash 3.2 and newer.

# What can follow the words $1: commands; and flags, those with a value ending in "=".
_yuba_words() {
	case $1 in
{{- range .}}{{if .Words}}
	{{quote .Path}}) echo {{range .Words}}{{.Name}} {{end}};;
{{- end}}{{end}}
	esac
}

_yuba_flags() {
	case $1 in
{{- range .}}{{if .Flags}}
	{{quote .Path}}) echo {{range .Flags}}-{{.Name}}{{if .Value}}={{end}} {{end}};;
{{- end}}{{end}}
	esac
}

_yuba() {
	local cur=${COMP_WORDS[COMP_CWORD]} path= word words i dashes
	COMPREPLY=()
	# The value of a flag is a file, or nothing that is known here.
	if [ "$cur" = = ] || [ "${COMP_WORDS[COMP_CWORD - 1]}" = = ]; then
		return
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		-* | =) continue ;;
		esac
		[ "${COMP_WORDS[i - 1]}" = = ] && continue
		case " $(_yuba_words "$path") " in
		*" $word "*) path=${path:+$path }$word ;;
		*)
			[ -n "$(_yuba_words "$path")" ] && return # there is no such command
			break
			;;
		esac
	done
	case $cur in
	-*)
		dashes=-
		case $cur in --*) dashes=-- ;; esac
		for word in $(_yuba_flags "$path"); do
			word=$dashes${word#-}
			case $word in "$cur"*) COMPREPLY+=("$word") ;; esac
		done
		if [ ${#COMPREPLY[@]} = 1 ]; then
			case ${COMPREPLY[0]} in *=) compopt -o nospace 2>/dev/null ;; esac
		fi
		return
		;;
	esac
	words=$(_yuba_words "$path")
	case $path in
{{- range .}}{{if .TakeNode}}
	{{quote .Path}}) words=$(yuba k8s nodes 2>/dev/null) ;;
{{- end}}{{end}}
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}

complete -o default -F _yuba yuba
