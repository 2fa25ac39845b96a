/** Keeps secrets of the settings out of whatever the suite prints or writes. */
import type { JsonSchema } from '@sluice/sdk'

const HIDDEN = '********'

/** Learns secrets as fixtures start, and takes them out of texts. */
export class Redactor {
  readonly #secrets = new Set<string>()

  /** Values that the schema marks with `x-secret`, and passwords that stand in addresses. */
  learn(schema: JsonSchema, settings: unknown): void {
    for (const text of secretsIn(schema, settings)) {
      this.#secrets.add(text)
      this.#secrets.add(encodeURIComponent(text))
    }
  }

  /** Longer secrets go first: one may hold another. */
  redact(text: string): string {
    const secrets = [...this.#secrets].sort((left, right) => right.length - left.length)
    return secrets.reduce((rest, secret) => rest.replaceAll(secret, HIDDEN), text)
  }
}

function secretsIn(schema: JsonSchema | undefined, value: unknown): readonly string[] {
  if (typeof value === 'string') return schema?.['x-secret'] ? [value, ...passwordsIn(value)] : passwordsIn(value)
  if (typeof value === 'number' || typeof value === 'bigint') return schema?.['x-secret'] ? [String(value)] : []
  if (Array.isArray(value)) {
    const items = schema?.['x-secret'] ? { ...schema.items, 'x-secret': true } : schema?.items
    return value.flatMap((item) => secretsIn(items, item))
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value)
    .flatMap(([name, part]) => {
      const inner = schema?.properties?.[name]
      return secretsIn(schema?.['x-secret'] ? { ...inner, 'x-secret': true } : inner, part)
    })
    .filter((text) => text !== '')
}

function passwordsIn(text: string): readonly string[] {
  if (!URL.canParse(text)) return []
  const { password } = new URL(text)
  return password === '' ? [] : [password, decodeURIComponent(password)]
}
