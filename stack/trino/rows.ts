/** A statement sent to Trino as its protocol has it; for tests, which select text so that JSON loses nothing. */
export interface TrinoLogin {
  readonly url: string
  readonly user?: string
  readonly token?: string
}

interface Page {
  readonly nextUri?: string
  readonly data?: readonly (readonly unknown[])[]
  readonly error?: { readonly errorName: string; readonly message: string }
}

export class TrinoError extends Error {
  /** Trino's own: `PERMISSION_DENIED`, `TABLE_NOT_FOUND` … */
  readonly code: string

  constructor(code: string, message: string) {
    super(`${code}: ${message}`)
    this.code = code
  }
}

/** Throws TrinoError. */
export async function trinoRows(login: TrinoLogin, sql: string): Promise<readonly (readonly unknown[])[]> {
  const headers = {
    ...(login.token === undefined ? { 'x-trino-user': 'tests' } : { authorization: `Bearer ${login.token}` }),
    ...(login.user === undefined ? {} : { 'x-trino-user': login.user }),
  }
  const rows: (readonly unknown[])[] = []
  let page = await pageOf(await fetch(`${login.url}/v1/statement`, { method: 'POST', body: sql, headers }))
  for (;;) {
    if (page.error) throw new TrinoError(page.error.errorName, page.error.message)
    for (const row of page.data ?? []) rows.push(row)
    if (page.nextUri === undefined) return rows
    page = await pageOf(await fetch(page.nextUri, { headers }))
  }
}

async function pageOf(answer: Response): Promise<Page> {
  const text = await answer.text()
  if (!answer.ok) throw new TrinoError(`HTTP_${answer.status}`, text.slice(0, 500))
  return JSON.parse(text) as Page
}
