/** What an operator does in Keycloak, and how people log in there: by its own interfaces. */
import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const REALM_FILE = join(import.meta.dirname, '../../deploy/keycloak/sluice-realm.json')
/** Nobody listens there: what the browser would be sent to is read from the answer. */
const REDIRECT = 'http://127.0.0.1:7777/callback'

export interface Tokens {
  readonly access: string
  readonly id: string
}

export interface Person {
  readonly name: string
  readonly groups?: readonly string[]
  readonly roles?: readonly string[]
}

/** Of everybody who is made here. */
const PASSWORD = 'a-long-password-of-tests'

export class Keycloak {
  readonly origin: string
  readonly #login: { readonly username: string; readonly password: string }

  /** @param address with the administrator's login in it */
  constructor(address: URL) {
    this.origin = address.origin
    this.#login = { username: address.username, password: address.password }
  }

  issuer(realm: string): string {
    return `${this.origin}/realms/${realm}`
  }

  /** A realm of another name, from the same file. */
  async makeRealm(realm: string): Promise<void> {
    const text = await readFile(REALM_FILE, 'utf8')
    // What the server fills in from its environment when it imports a file.
    const filled = text.replaceAll(/\$\{\w+\}/g, 'http://127.0.0.1')
    await this.ask('POST', '/admin/realms', { ...JSON.parse(filled), realm })
  }

  async makePerson(realm: string, { name, groups = [], roles = [] }: Person): Promise<void> {
    await this.ask('POST', `/admin/realms/${realm}/users`, {
      username: name,
      enabled: true,
      email: `${name}@example.com`,
      emailVerified: true,
      firstName: name,
      lastName: name,
      groups,
      credentials: [{ type: 'password', value: PASSWORD, temporary: false }],
    })
    if (roles.length === 0) return
    const [user] = await this.ask<{ id: string }[]>('GET', `/admin/realms/${realm}/users?exact=true&username=${name}`)
    const known = await this.ask<{ name: string }[]>('GET', `/admin/realms/${realm}/roles`)
    const given = known.filter((role) => roles.includes(role.name))
    await this.ask('POST', `/admin/realms/${realm}/users/${user?.id}/role-mappings/realm`, given)
  }

  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const form = { grant_type: 'password', client_id: 'admin-cli', ...this.#login }
    const { access_token: token } = await this.#token('master', form)
    const response = await fetch(`${this.origin}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} → ${response.status} ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  /** The authorization code flow with PKCE, as a browser goes through it. */
  async logIn(realm: string, name: string, client = 'sluice-cli'): Promise<Tokens> {
    const verifier = randomBytes(32).toString('base64url')
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const code = await this.#code(realm, name, client, challenge)
    const form = { grant_type: 'authorization_code', client_id: client, redirect_uri: REDIRECT, code }
    const { access_token, id_token } = await this.#token(realm, { ...form, code_verifier: verifier })
    return { access: access_token as string, id: id_token as string }
  }

  /** What the login page sends the browser back with. Without a challenge: what it says against that. */
  async #code(realm: string, name: string, client: string, challenge: string): Promise<string> {
    const page = await this.loginPage(realm, client, challenge)
    const html = await page.text()
    const action = /action="([^"]+)"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
    if (action === undefined) throw new Error(`no login form: ${page.status}`)
    const cookie = page.headers
      .getSetCookie()
      .map((one) => one.split(';')[0])
      .join('; ')
    const answer = await fetch(action, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie },
      body: new URLSearchParams({ username: name, password: PASSWORD, credentialId: '' }),
    })
    const location = answer.headers.get('location')
    const code = location === null ? null : new URL(location).searchParams.get('code')
    if (code === null) throw new Error(`the login was refused: ${answer.status} ${location}`)
    return code
  }

  /** Where a browser is sent to log in; follows no redirect. */
  loginPage(realm: string, client: string, challenge: string | null): Promise<Response> {
    const parameters = new URLSearchParams({
      client_id: client,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: REDIRECT,
      ...(challenge === null ? {} : { code_challenge: challenge, code_challenge_method: 'S256' }),
    })
    const url = `${this.issuer(realm)}/protocol/openid-connect/auth?${parameters}`
    return fetch(url, { redirect: 'manual' })
  }

  async #token(realm: string, form: Readonly<Record<string, string>>): Promise<Record<string, unknown>> {
    const url = `${this.issuer(realm)}/protocol/openid-connect/token`
    const response = await fetch(url, { method: 'POST', body: new URLSearchParams(form) })
    const body = (await response.json()) as Record<string, unknown>
    if (!response.ok) throw new Error(`no token of ${realm}: ${response.status} ${JSON.stringify(body)}`)
    return body
  }
}
