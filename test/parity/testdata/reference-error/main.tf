resource "terraform_data" "a" {
  input = terraform_data.nope.id
}

output "b" {
  value = var.missing
}

output "c" {
  value = terraform_data.a.colour
}

output "d" {
  value = module.nope.x
}

output "e" {
  value = local.nope
}

output "f" {
  value = each.key
}

output "g" {
  value = data.local_file.x.content
}
