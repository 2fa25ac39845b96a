/** The key that a runner signs its certificates with. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

export interface SigningKey {
  readonly privateKeyPem: string
  /** As the runtime's configuration names keys that it trusts. */
  readonly publicKey: string
  readonly isNew: boolean
}

export function defaultKeyFile(): string {
  const folder = process.env['XDG_CONFIG_HOME'] ?? join(homedir(), '.config')
  return join(folder, 'sluice', 'conformance-key.pem')
}

/** Reads the key, or makes one that only its owner may read. Throws a plain Error for a file that holds none. */
export async function openSigningKey(file: string): Promise<SigningKey> {
  const present = await readFile(file, 'utf8').catch(ignoreAbsent)
  const privateKeyPem = present ?? (await makeKey(file))
  try {
    const publicKey = createPublicKey(privateKeyPem)
    if (publicKey.asymmetricKeyType !== 'ed25519') throw new Error('it is of another type')
    const text = publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
    return { privateKeyPem, publicKey: text, isNew: present === null }
  } catch {
    throw new Error(
      'the file named with --key holds no Ed25519 key in PEM; name one that does not exist to have one made',
    )
  }
}

function ignoreAbsent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

/** Another runner may be making it at the same moment: whoever is second takes what is there. */
async function makeKey(file: string): Promise<string> {
  const { privateKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  // In one go: below /proc the way that does not wait never ends.
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  try {
    await writeFile(file, pem, { mode: 0o600, flag: 'wx' })
    return pem
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return await readFile(file, 'utf8')
  }
}
