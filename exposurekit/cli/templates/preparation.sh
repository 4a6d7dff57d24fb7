# As root, once: the user, the key (keep a copy elsewhere) and the directory of the site definitions.
# useradd --system --home-dir @state@ --shell /usr/sbin/nologin @user@
# install -d -o @user@ -m 700 @state@ && install -d -m 755 @settings@ @sites@
@copies@# @new_key_file@chown @user@ @key_file@
