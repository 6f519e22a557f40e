cat >/dev/null
echo nonsense
