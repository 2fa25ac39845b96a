/** Two runs of the same tests: what was answered, without what no two runs have in common. */

export interface Recorded {
  readonly test: string
  readonly who: string
  readonly method: string
  readonly path: string
  readonly body: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly answer: string
}

/** By request, all the answers that it was given. Clients poll, so how often says nothing. */
export type Answers = ReadonlyMap<string, ReadonlySet<string>>

export interface Difference {
  readonly request: string
  readonly answer: string
}

/** The words for people may be better ones each time. */
const WORDS = new Set(['detail', 'title', 'message', 'remedy', 'summary', 'description', 'hint'])
/** What is measured. */
const MEASURED = /(^|_)(ms|s|seconds|bytes|took|lag|age|seq|cpu|offset|position|expires|exp|iat|rows_per_second)$/
/** Of each answer anew, by their purpose; and who of two at once was the second. */
const OWN_HEADERS = new Set([
  'date',
  'x-request-id',
  'ratelimit',
  'etag',
  'content-length',
  'connection',
  'keep-alive',
  'idempotency-replayed',
])

const PLACEHOLDERS: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/g, '<uuid>'],
  [/\b(con|prd|dep|run|mat|grt|rgt|idk|evt|key|qrn)_[0-9a-f]{24}\b/g, '<$1>'],
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)?/g, '<time>'],
  [/\b(?:127\.0\.0\.1|localhost|\[::1\]):\d+/g, '<host>'],
  [/\b[\w-]{40,}(?:\.[\w-]+)*(?:=|%3D)*/g, '<long>'],
  [/(?<![0-9a-z])[0-9a-f]{8,}(?![0-9a-z])/g, '<hex>'],
  [/[0-9a-f]{12,}/g, '<hex>'],
  [/\b\d{10,}\b/g, '<number>'],
]

export function plain(text: string): string {
  return PLACEHOLDERS.reduce((found, [pattern, placeholder]) => found.replace(pattern, placeholder), text)
}

function plainValue(value: unknown, key: string): unknown {
  if (WORDS.has(key) && typeof value === 'string') return '<words>'
  if (typeof value === 'string') return plain(value)
  if (typeof value === 'number') return MEASURED.test(key) ? '<measured>' : value
  if (Array.isArray(value)) return value.map((item) => plainValue(item, key))
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).map(([name, held]) => [plain(name), plainValue(held, name)] as const)
  return Object.fromEntries(entries.sort(([left], [right]) => (left < right ? -1 : 1)))
}

function plainBody(text: string): string {
  try {
    return JSON.stringify(plainValue(JSON.parse(text), ''))
  } catch {
    return plain(text)
  }
}

export function answersOf(recorded: Iterable<Recorded>): Answers {
  const answers = new Map<string, Set<string>>()
  for (const { test, who, method, path, body, status, headers, answer } of recorded) {
    const request = [test, plain(who), method, plain(decoded(path)), plainBody(body)].join(' ')
    const shown = Object.entries(headers)
      .filter(([name]) => !OWN_HEADERS.has(name))
      .map(([name, value]) => `${name}: ${plain(value)}`)
      .sort()
    const known = answers.get(request) ?? new Set()
    answers.set(request, known.add([status, ...shown, plainBody(answer)].join('\n')))
  }
  return answers
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/**
 * Answers to requests that both sides made and that only `one` of them got. What the base's own runs do not have in common
 * depends on the moment, and proves nothing: such requests are left out, and counted by `unsteady`.
 */
export function onlyIn(one: Answers, others: readonly Answers[], unsteady: ReadonlySet<string>): Difference[] {
  return [...one].flatMap(([request, answers]) => {
    if (unsteady.has(request) || !others.every((other) => other.has(request))) return []
    return [...answers]
      .filter((answer) => !others.some((other) => other.get(request)?.has(answer)))
      .map((answer) => ({ request, answer }))
  })
}

/** Requests that one run of the base answered otherwise than the other. */
export function unsteadyIn(first: Answers, second: Answers): ReadonlySet<string> {
  const differs = (one: Answers, other: Answers) =>
    [...one].flatMap(([request, answers]) =>
      other.has(request) && [...answers].some((answer) => !other.get(request)?.has(answer)) ? [request] : [],
    )
  return new Set([...differs(first, second), ...differs(second, first)])
}
