"""Superset as this platform uses it: who may read which dataset is told to it by the runtime, not decided here."""

import hashlib
import os

from superset.security import SupersetSecurityManager

SECRET_KEY = os.environ["SUPERSET_SECRET_KEY"]
SQLALCHEMY_DATABASE_URI = os.environ["SQLALCHEMY_DATABASE_URI"]

# The runtime makes roles and gives them datasets.
FAB_ADD_SECURITY_API = True
PUBLIC_ROLE_LIKE = None
FEATURE_FLAGS = {
    # Charts read their dataset and nothing beside it.
    "ALLOW_ADHOC_SUBQUERY": False,
    "ENABLE_TEMPLATE_PROCESSING": False,
    # What is kept for one person is shown to no other.
    "CACHE_QUERY_BY_USER": True,
}
# Of datasets that name no time themselves, in seconds.
CACHE_DEFAULT_TIMEOUT = 300
ROW_LIMIT = 10_000
SQL_MAX_ROW = 10_000
SUPERSET_WEBSERVER_TIMEOUT = 60


def role_name(tenant, kind, name):
    """As the runtime calls the role of a team or a user of a tenant."""
    plain = f"sluice:{tenant}:{kind}:{name}"
    return plain if len(plain) <= 64 else f"sluice:{hashlib.sha256(plain.encode()).hexdigest()[:40]}"


class SluiceSecurityManager(SupersetSecurityManager):
    """People come from the issuer; their roles are those that the runtime made for their tenant, groups and subject."""

    def oauth_user_info(self, provider, response=None):
        claims = self.appbuilder.sm.oauth_remotes[provider].get("userinfo").json()
        tenant, subject = claims.get("tenant_id"), claims["sub"]
        groups = [group.rsplit("/", 1)[-1] for group in claims.get("groups", [])]
        keys = []
        if isinstance(tenant, str) and {"svc-viewers", "svc-developers"} & set(groups):
            keys = ["Gamma", role_name(tenant, "user", subject)]
            keys += [role_name(tenant, "team", group) for group in groups]
        return {
            "username": subject,
            "email": claims.get("email", f"{subject}@users.invalid"),
            "first_name": claims.get("given_name", ""),
            "last_name": claims.get("family_name", ""),
            "role_keys": keys,
        }

    def get_roles_from_keys(self, role_keys):
        """By name; a role that is not there opens nothing."""
        found = (self.find_role(key) for key in role_keys)
        return {role for role in found if role is not None}


CUSTOM_SECURITY_MANAGER = SluiceSecurityManager

ISSUER = os.environ.get("OIDC_ISSUER")
if ISSUER:
    from flask_appbuilder.security.manager import AUTH_OAUTH

    AUTH_TYPE = AUTH_OAUTH
    AUTH_USER_REGISTRATION = True
    AUTH_USER_REGISTRATION_ROLE = "Public"
    AUTH_ROLES_SYNC_AT_LOGIN = True
    # The addresses that this server asks lead into the network; people are sent to the public one.
    INTERNAL = os.environ["OIDC_INTERNAL_URL"]
    OAUTH_PROVIDERS = [
        {
            "name": "sluice",
            "icon": "fa-key",
            "token_key": "access_token",
            "remote_app": {
                "client_id": "superset",
                "client_secret": os.environ["SUPERSET_OIDC_SECRET"],
                "client_kwargs": {"scope": "openid profile email"},
                "api_base_url": f"{INTERNAL}/protocol/openid-connect/",
                "access_token_url": f"{INTERNAL}/protocol/openid-connect/token",
                "authorize_url": f"{ISSUER}/protocol/openid-connect/auth",
                "jwks_uri": f"{INTERNAL}/protocol/openid-connect/certs",
            },
        }
    ]
