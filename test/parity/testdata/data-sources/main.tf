data "local_file" "f" {
  filename = "hello.txt"
}

data "null_data_source" "n" {
  inputs = { a = "b" }
}

data "external" "e" {
  program = ["sh", "-c", "printf '{\"got\":\"it\"}'"]
  query   = { a = "b" }
}

output "all" {
  value = [data.local_file.f.content_md5, data.null_data_source.n.outputs, data.external.e.result]
}
