/**
 * SQL, of a type `t` of pg_type: `part (oid, more)`, the types that it is directly made of. `more` is 1 of those that a value of its
 * own has (ends of ranges, fields of records), and 0 of elements and of what a domain is made of. The column of multiranges is
 * read as JSON, since servers before 14 have none. An oid of 0 stands for no type.
 */
export const TYPE_PARTS = `(
        SELECT t.typelem, 0 UNION ALL SELECT t.typbasetype, 0
        UNION ALL SELECT y.rngsubtype, 1 FROM pg_range y WHERE t.oid::text IN (y.rngtypid::text, to_jsonb(y) ->> 'rngmultitypid')
        UNION ALL SELECT f.atttypid, 1 FROM pg_attribute f
          WHERE f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped) part(oid, more)`
