module "m" {
  source = "./m"
}

resource "null_resource" "n" {
  triggers = { a = module.m.id }
}
