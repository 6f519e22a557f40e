resource "terraform_data" "a" {
  input = {
    json  = jsonencode({ a = [1, 3], b = { c = "x" }, e = "same" })
    yaml  = "a: 1\nb: 3\nc: 3\n"
    list  = ["a", "c", "d", "e"]
    map   = { two = 22, three = 3 }
    bool  = "true"
    null  = 1
    multi = join("\n", [for i in range(30) : i == 15 ? "other" : "line ${i}"])
  }
}
