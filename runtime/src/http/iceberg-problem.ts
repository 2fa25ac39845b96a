import type { Problem } from './problem-document.ts'
/** Problems as clients of the Iceberg REST catalog read them: `{error: {message, type, code}}`. */

/** Everything below answers in the form of the Iceberg REST specification. */
export const ICEBERG_PREFIX = '/iceberg/v1/'

/** Exceptions of the specification that clients act on, by our codes. */
const TYPES_BY_CODE: Readonly<Record<string, string>> = {
  catalog_warehouse_not_found: 'NoSuchWarehouseException',
  catalog_namespace_not_found: 'NoSuchNamespaceException',
  catalog_table_not_found: 'NoSuchTableException',
  catalog_table_exists: 'AlreadyExistsException',
  catalog_namespace_exists: 'AlreadyExistsException',
  catalog_namespace_not_empty: 'NamespaceNotEmptyException',
  lake_commit_conflict: 'CommitFailedException',
}

const TYPES_BY_STATUS: Readonly<Record<number, string>> = {
  400: 'BadRequestException',
  401: 'NotAuthorizedException',
  403: 'ForbiddenException',
  404: 'NotFoundException',
  405: 'UnsupportedOperationException',
  409: 'ConflictException',
  413: 'BadRequestException',
  415: 'BadRequestException',
  422: 'UnprocessableEntityException',
  429: 'TooManyRequestsException',
  500: 'InternalServerError',
  501: 'UnsupportedOperationException',
  503: 'ServiceUnavailableException',
  504: 'ServiceUnavailableException',
}

/** The same problem, its detail and remedy as the message. `reason` and `request_id` stand beside what clients know. */
export function inIcebergForm(problem: Problem): Problem {
  const { status, detail, code, remedy, request_id, errors } = JSON.parse(problem.body) as {
    readonly status: number
    readonly detail: string
    readonly code: string
    readonly remedy?: string
    readonly request_id: string
    readonly errors?: readonly { readonly pointer: string; readonly message: string }[]
  }
  const faults = (errors ?? []).slice(0, 5).map(({ pointer, message }) => `${pointer} ${message}`)
  const said = faults.length === 0 ? detail : `${detail} (${faults.join('; ')})`
  const error = {
    message: remedy === undefined ? said : `${said}. ${remedy}`,
    type: TYPES_BY_CODE[code] ?? TYPES_BY_STATUS[status] ?? 'BadRequestException',
    code: status,
    reason: code,
    request_id,
  }
  return {
    status,
    headers: { ...problem.headers, 'Content-Type': 'application/json; charset=utf-8' },
    body: JSON.stringify({ error }),
  }
}
