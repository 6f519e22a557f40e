echo '{"magic":"OpenTofu-External-Encryption-Method","version":1}'
printf '{"payload":"'
sed 's/.*"payload":"\([^"]*\)".*/\1/' | tr -d '\n' | base64 -d
printf '"}\n'
