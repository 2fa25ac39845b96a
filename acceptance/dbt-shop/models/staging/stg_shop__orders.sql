with source as (

    -- not a table here: {{ source('shop', 'orders') }}
    select * from {{ source('shop', 'orders') }}

), renamed as (

    select
        id as order_id,
        user_id as customer_id,
        order_date,
        status,
        "Note" as note,
        'read from {{ source("shop", "orders") }}' as read_from
    from source

)

select * from renamed
