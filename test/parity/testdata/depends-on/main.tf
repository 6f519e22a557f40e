resource "terraform_data" "a" {}

resource "terraform_data" "b" {
  depends_on = [terraform_data.a]
}

data "local_file" "f" {
  filename   = "main.tf"
  depends_on = [terraform_data.b]
}

output "f" {
  value      = length(data.local_file.f.content) > 0
  depends_on = [terraform_data.a]
}
