/** Codes of the Iceberg catalog. Part of the one table in `codes.ts`. */

export const CATALOG_CODES = {
  catalog_warehouse_not_found: {
    status: 404,
    title: 'Warehouse not found',
    remedy: 'Name the tenant of the token as the warehouse.',
  },
  catalog_namespace_not_found: {
    status: 404,
    title: 'Namespace not found',
    remedy: 'List the namespaces; "sandbox" is made by creating it.',
  },
  catalog_namespace_exists: { status: 409, title: 'Namespace exists', remedy: 'Use the namespace that is there.' },
  catalog_namespace_not_empty: {
    status: 409,
    title: 'Namespace not empty',
    remedy: 'Drop its tables first.',
  },
  catalog_table_not_found: {
    status: 404,
    title: 'Table not found',
    remedy: 'List the tables; a product has one as soon as it has been materialized.',
  },
  catalog_table_exists: { status: 409, title: 'Table exists', remedy: 'Choose another name, or drop the table first.' },
  catalog_read_only: {
    status: 422,
    title: 'Table of a product',
    remedy: 'Change a product by its manifests and sources; write your own tables into the namespace "sandbox".',
  },
  catalog_format_unsupported: {
    status: 422,
    title: 'Format version not supported',
    remedy: 'Leave the property format-version out, or set it to 2.',
  },
  catalog_storage_full: {
    status: 403,
    title: 'Storage of the tenant is full',
    remedy: 'Drop tables, products or snapshots, or ask an administrator for a higher tier.',
  },
  catalog_request_invalid: {
    status: 400,
    title: 'Invalid catalog request',
    remedy: 'Send what the Iceberg REST specification describes.',
  },
  catalog_request_contradictory: {
    status: 422,
    title: 'Contradictory catalog request',
    remedy: 'Send two requests.',
  },
  catalog_location_refused: {
    status: 400,
    title: 'Location refused',
    remedy: 'Leave out the location: the catalog chooses a folder for every table.',
  },
  catalog_path_foreign: {
    status: 422,
    title: 'Path outside of the table',
    remedy: 'Write data and metadata below the location of the table.',
  },
  catalog_files_unreadable: {
    status: 422,
    title: 'Files of the commit unreadable',
    remedy: 'Write the manifests before the commit, with parquet files and position deletes only.',
  },
  catalog_metadata_too_large: {
    status: 422,
    title: 'Table metadata too large',
    remedy: 'Expire old snapshots of the table, or make fewer columns.',
  },
  catalog_files_closed: {
    status: 403,
    title: 'No access to files',
    remedy: 'Use POST /api/v1/query, or ask the operator to set catalog.file_access.',
  },
  catalog_logins_unavailable: {
    status: 409,
    title: 'No logins for SQL catalogs',
    remedy: 'Set database.catalog_admin_url to a login of the registry’s server that may make roles.',
  },
  catalog_signing_refused: {
    status: 403,
    title: 'Request to the object store not signed',
    remedy: 'Ask for single files below the location of the table that you have loaded.',
  },
  catalog_signing_unsafe: {
    status: 500,
    title: 'Object store takes what was not signed',
    remedy: 'Set catalog.file_access to direct or none, or use a store that holds each request to what was signed.',
  },
  catalog_page_token_invalid: { status: 400, title: 'Invalid page token', remedy: 'Start again without a pageToken.' },
} as const
