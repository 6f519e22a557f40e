resource "terraform_data" "a" {
  count = 2
  input = count.index
}

resource "null_resource" "b" {
  triggers = { x = "y" }
}

output "o" {
  value = [1, 2]
}
