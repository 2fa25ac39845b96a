/** SCRAM (RFC 5802) as a client: the password itself never travels, and the server has to know it, too. */
import { createHash, createHmac, pbkdf2, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { BrokenAnswer } from './bytes.ts'

const derive = promisify(pbkdf2)
/** What a server may ask us to work. */
const [LEAST_ROUNDS, MOST_ROUNDS] = [4096, 1_000_000]
const MAX_SALT_BYTES = 1024

/** `exchange` sends a message and gives the answer. Throws BrokenAnswer. */
export async function scram(
  hash: 'sha256' | 'sha512',
  login: { readonly user: string; readonly password: string; readonly nonce: string },
  exchange: (message: Buffer) => Promise<Buffer>,
): Promise<void> {
  const hmac = (key: Buffer, text: string) => createHmac(hash, key).update(text).digest()
  const name = login.user.replaceAll('=', '=3D').replaceAll(',', '=2C')
  const first = `n=${name},r=${login.nonce}`
  const challenge = (await exchange(Buffer.from(`n,,${first}`))).toString('utf8')
  const { r: nonce = '', s: salt = '', i: rounds = '' } = fieldsOf(challenge)
  const count = Number(rounds)
  const salted = Buffer.from(salt, 'base64')
  if (!nonce.startsWith(login.nonce) || nonce.length === login.nonce.length)
    throw new BrokenAnswer('the challenge of the login is not ours')
  if (!Number.isInteger(count) || count < LEAST_ROUNDS || count > MOST_ROUNDS || salted.length > MAX_SALT_BYTES)
    throw new BrokenAnswer('the challenge of the login asks for too little work, or too much')
  const key = await derive(login.password.normalize('NFKC'), salted, count, hash === 'sha256' ? 32 : 64, hash)
  const clientKey = hmac(key, 'Client Key')
  const last = `c=biws,r=${nonce}`
  const signed = `${first},${challenge},${last}`
  const signature = hmac(createHash(hash).update(clientKey).digest(), signed)
  const proof = Buffer.from(clientKey.map((byte, at) => byte ^ (signature[at] ?? 0)))
  const answer = fieldsOf((await exchange(Buffer.from(`${last},p=${proof.toString('base64')}`))).toString('utf8'))
  const wanted = hmac(hmac(key, 'Server Key'), signed)
  const given = Buffer.from(answer['v'] ?? '', 'base64')
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted))
    throw new BrokenAnswer('the server does not know the password that it asks for')
}

function fieldsOf(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(text.split(',').map((field) => [field.slice(0, 1), field.slice(2)]))
}
