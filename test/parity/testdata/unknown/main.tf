resource "terraform_data" "a" {
  input = "a"
}

resource "terraform_data" "b" {
  input            = { id = terraform_data.a.id, list = [terraform_data.a.output, "x"] }
  triggers_replace = [terraform_data.a.id]
}

data "local_file" "f" {
  filename = "${terraform_data.a.output}.txt"
}

output "b" {
  value = terraform_data.b.output
}

output "content" {
  value = data.local_file.f.content
}
