import { type JsonSchema, SluiceError } from '@sluice/sdk'
import { MemorySource } from './memory-source.ts'

export interface SourceSettings {
  readonly source: MemorySource
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  /** Whether the source has to prove who it is, which this one cannot. */
  readonly verify: boolean
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['source', 'host', 'port', 'user', 'password'],
  properties: {
    source: { type: 'object', description: 'A MemorySource.' },
    host: { type: 'string', minLength: 1, description: 'Where the source is.', examples: ['localhost'] },
    port: { type: 'integer', minimum: 1, maximum: 65_535, description: 'Its port.', examples: [7] },
    user: { type: 'string', minLength: 1, description: 'The login.' },
    password: { type: 'string', minLength: 1, description: 'Its password.', 'x-secret': true },
    verify: { type: 'boolean', default: false, description: 'Refuse a source that cannot prove who it is.' },
  },
}

/** The only port that the source listens on. */
export const PORT = 7

/** Logins by name. */
const PASSWORDS: Readonly<Record<string, string>> = { reader: 'open sesame 51c9', sees_nothing: 'open sesame 51c9' }

export function isLogin({ user, password }: SourceSettings): boolean {
  return PASSWORDS[user] === password
}

/** Throws CONFIG `settings_invalid`. */
export function checkSettings(settings: SourceSettings): SourceSettings {
  const { source, host, port, user, password, verify = false, ...others } = settings
  const isRight =
    source instanceof MemorySource &&
    [host, user, password].every((text) => typeof text === 'string' && text !== '') &&
    Number.isInteger(port) &&
    typeof verify === 'boolean' &&
    Object.keys(others).length === 0
  if (isRight) return { ...settings, verify }
  throw new SluiceError('CONFIG', 'the settings of this source are not valid', {
    code: 'settings_invalid',
    remedy: 'Give source, host, port, user and password, and perhaps verify.',
  })
}
