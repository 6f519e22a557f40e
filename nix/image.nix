# The image of a node: a docker archive with the root file system as its one layer and /sbin/init
# as its command. Of the same system it is the same bytes, wherever and whenever it is built.
{
  lib,
  stdenv,
  runCommand,
  closureInfo,
}:
{
  # Name of the node, for the name of the file.
  name,
  # The system: `config.system.build.toplevel`.
  toplevel,
}:
let
  # As images name it: Go's names.
  architecture =
    {
      x86_64 = "amd64";
      aarch64 = "arm64";
    }
    .${stdenv.hostPlatform.parsed.cpu.name};

  created = "1970-01-01T00:00:01Z";

  # Times of one second after the epoch, as in the store, and no trace of who built it. In a store
  # that shares equal files these are hard links, which are no part of the image.
  tar = lib.concatStringsSep " " [
    "tar"
    "--create"
    "--format=gnu"
    "--sort=name"
    "--mtime=@1"
    "--owner=0"
    "--group=0"
    "--numeric-owner"
    "--hard-dereference"
  ];

  imageConfig = diffID: {
    inherit architecture created;
    os = "linux";
    config = {
      Cmd = [ "/sbin/init" ];
      # systemd takes SIGTERM as an order to start itself anew.
      StopSignal = "SIGRTMIN+3";
    };
    rootfs = {
      type = "layers";
      diff_ids = [ diffID ];
    };
    history = [
      {
        inherit created;
        created_by = "yuba";
      }
    ];
  };
in
runCommand "${name}.tar"
  {
    # Where it is built is where the system is.
    preferLocalBuild = true;
    imageConfig = builtins.toJSON (imageConfig "sha256:@layer@");
    manifest = builtins.toJSON [
      {
        Config = "@config@.json";
        RepoTags = [ ];
        Layers = [ "@layer@.tar" ];
      }
    ];
  }
  ''
    export LC_ALL=C
    umask 022
    mkdir root image

    # What activation and systemd expect to find, and what the pod mounts on.
    (
      cd root
      mkdir -p dev etc nix/store nix/var/nix proc root run sbin sys tmp usr var/lib var/log
      chmod 0700 root
      chmod 1777 tmp
      # What is mounted below /var/run is to be below /run, also before activation.
      ln -s ../run var/run
      ln -s ${toplevel}/init sbin/init
      # Empty: systemd takes the machine ID that the pod gives, and nothing counts as a first boot.
      : >etc/machine-id
    )

    sed -e 's,^/,,' ${closureInfo { rootPaths = [ toplevel ]; }}/store-paths | sort -u >paths
    ${tar} --file=image/layer.tar --directory="$PWD/root" . --directory=/ --files-from="$PWD/paths"
    rm -r root

    layer=$(sha256sum image/layer.tar | cut -d ' ' -f 1)
    mv image/layer.tar "image/$layer.tar"
    printf %s "$imageConfig" | sed -e "s,@layer@,$layer," >config
    config=$(sha256sum config | cut -d ' ' -f 1)
    mv config "image/$config.json"
    printf %s "$manifest" | sed -e "s,@layer@,$layer,;s,@config@,$config," >image/manifest.json

    # The manifest first: who reads the archive as a stream knows what comes.
    ${tar} --file="$out" --directory=image manifest.json "$config.json" "$layer.tar"
  ''
