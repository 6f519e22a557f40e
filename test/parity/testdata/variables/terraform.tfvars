s = "from terraform.tfvars"
n = 2
nn = null
