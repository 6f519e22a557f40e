# Stands in for nixpkgs: `nix eval --override-input nixpkgs path:...`
{
  outputs =
    { self }:
    let
      lib = import ./lib.nix;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs systems (system: import ./. { inherit system; });
    };
}
