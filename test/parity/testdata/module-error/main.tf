module "m" {
  source = "./m"
  extra  = 1
}

output "o" {
  value = module.m.nope
}
