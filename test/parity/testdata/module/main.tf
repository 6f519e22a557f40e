module "one" {
  source = "./child"
  name   = "one"
}

module "many" {
  source   = "./child"
  for_each = toset(["a", "b"])
  name     = each.key
  size     = module.one.size + 1
}

module "counted" {
  source     = "./child"
  count      = 2
  name       = "n${count.index}"
  depends_on = [module.one]
}

output "names" {
  value = concat([module.one.name], values(module.many)[*].name, module.counted[*].name)
}
