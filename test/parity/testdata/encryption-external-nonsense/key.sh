cat >/dev/null
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
echo nonsense
