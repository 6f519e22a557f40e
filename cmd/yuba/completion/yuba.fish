# Completions of yuba for fish 3.0 and newer.

# The words of the command line that name a command.
function __yuba_path
	set -l path
	for word in (commandline -opc)[2..-1]
		string match -q -- '-*' $word; and continue
		switch "$path|$word"
{{- range .}}{{$path := .Path}}{{range .Words}}
			case {{quote (print $path "|" .Name)}}
				set path (string trim -- "$path "{{quote .Name}})
{{- end}}{{if .Words}}
			case {{quote (print .Path "|*")}}
				return
{{- end}}{{end}}
			case '*'
				break
		end
	end
	echo "at $path"
end

function __yuba_at
	test (__yuba_path)x = "at $argv"x
end
{{range .}}{{$path := quote .Path}}{{range .Words}}
complete -c yuba -f -n "__yuba_at {{$path}}" -a {{quote .Name}} -d {{quote .Text}}
{{- end}}{{range .Flags}}
complete -c yuba -n "__yuba_at {{$path}}" -o {{quote .Name}} {{if .Value}}-r {{end}}-d {{quote .Text}}
{{- end}}{{if .TakeNode}}
complete -c yuba -f -n "__yuba_at {{$path}}" -a '(yuba k8s nodes 2>/dev/null)' -d node
{{- end}}{{end}}
