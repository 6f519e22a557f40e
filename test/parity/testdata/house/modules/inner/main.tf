variable "text" {
  type = string
}

module "deep" {
  source = "../deep"
  text   = "${var.text}, deeply"
}

output "text" {
  value = module.deep.text
}
